package locker

import (
	"context"
	"errors"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// cleanupBound is how long one cleanup waits for a server before it pauses.
const cleanupBound = 5 * time.Second

// cleanup sees to it, in the background, that nothing is left of the lease. It goes on
// until the driver has said so or the Locker is closed.
func (c *core) cleanup(le *lease) {
	c.more()
	go func() {
		defer c.done()
		slots := c.cleanups
		for pause := new(driver.Backoff); c.alive.Err() == nil; pause.Sleep(c.alive) {
			err := le.abandon(slots)
			if o := c.cfg.Observer; o != nil && o.Cleanup != nil {
				o.Cleanup(le.claim.Name, err)
			}
			if err == nil {
				return
			}
			c.cfg.Logger.Debug("locker: cleanup will be tried again", "backend", c.traits.Backend, "name", le.claim.Name, "error", err)
			slots = c.retries
		}
	}()
}

// abandon asks the driver once to remove what is left of the lease, or to keep the name taken
// as long as AtLeast wants that.
func (le *lease) abandon(slots chan struct{}) error {
	c := le.core
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-c.alive.Done():
		return c.alive.Err()
	}
	ctx, cancel := context.WithTimeout(c.alive, cleanupBound)
	defer cancel()
	return safely(func() error {
		if left := le.stays(); left > 0 {
			err := c.lingerer.Linger(ctx, &le.claim, left)
			if errors.Is(err, driver.ErrGone) {
				return nil // the driver wants nothing more
			}
			return err
		}
		return c.driver.Abandon(ctx, &le.claim)
	})
}

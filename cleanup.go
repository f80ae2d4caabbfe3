package locker

import (
	"context"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// cleanupBound is how long one cleanup waits for a server before it pauses.
const cleanupBound = 5 * time.Second

// cleanup sees to it, in the background, that nothing is left of claim. It goes on
// until the driver has said so or the Locker is closed.
func (c *core) cleanup(claim *driver.Claim) {
	c.more()
	go func() {
		defer c.done()
		for pause := new(driver.Backoff); c.alive.Err() == nil; pause.Sleep(c.alive) {
			err := c.abandon(claim)
			if o := c.cfg.Observer; o != nil && o.Cleanup != nil {
				o.Cleanup(claim.Name, err)
			}
			if err == nil {
				return
			}
			c.cfg.Logger.Debug("locker: cleanup will be tried again", "backend", c.traits.Backend, "name", claim.Name, "error", err)
		}
	}()
}

// abandon asks the driver once to remove what is left of claim.
func (c *core) abandon(claim *driver.Claim) error {
	select {
	case c.cleanups <- struct{}{}:
		defer func() { <-c.cleanups }()
	case <-c.alive.Done():
		return c.alive.Err()
	}
	ctx, cancel := context.WithTimeout(c.alive, cleanupBound)
	defer cancel()
	return safely(func() error { return c.driver.Abandon(ctx, claim) })
}

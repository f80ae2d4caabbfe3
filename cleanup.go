package locker

import (
	"context"
	"math/rand/v2"
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
		for pause := newBackoff(); c.alive.Err() == nil; pause.sleep(c.alive) {
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

// backoff is a pause that grows.
type backoff time.Duration

func newBackoff() backoff { return backoff(20 * time.Millisecond) }

// sleep pauses, for a random time around the current length, or until ctx ends.
func (b *backoff) sleep(ctx context.Context) {
	d := time.Duration(*b)
	*b = min(*b*2, backoff(2*time.Second))
	t := time.NewTimer(d/2 + rand.N(d))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

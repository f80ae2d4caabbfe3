package locker

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// undoBound is how long one clean-up waits for a server before it pauses.
const undoBound = 5 * time.Second

// undo sees to it, in the background, that nothing is left of claim. It goes on
// until the driver has said so or the Locker is closed.
func (c *core) undo(claim *driver.Claim) {
	c.more()
	go func() {
		defer c.done()
		for pause := newBackoff(); c.alive.Err() == nil; pause.sleep(c.alive) {
			err := c.abandon(claim)
			if err == nil {
				return
			}
			c.cfg.Logger.Debug("locker: clean-up will be tried again", "backend", c.traits.Backend, "name", claim.Name, "error", err)
		}
	}()
}

func (c *core) abandon(claim *driver.Claim) error {
	select {
	case c.undos <- struct{}{}:
		defer func() { <-c.undos }()
	case <-c.alive.Done():
		return c.alive.Err()
	}
	ctx, cancel := context.WithTimeout(c.alive, undoBound)
	defer cancel()
	return c.driver.Abandon(ctx, claim)
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

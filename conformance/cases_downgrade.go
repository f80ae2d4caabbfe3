package conformance

import (
	"context"
	"time"

	"github.com/seed80cd6120/locker"
)

var downgradeCases = []*testCase{
	newCase("Downgrade/Refused", 1).needing(noDowngrade|madeByLocker).proves(
		"A backend that does not offer Downgrade refuses it with ErrUnsupported, and the lock stays what it was.",
		func(c *C) {
			h := c.openLocker().lock(c.x)
			c.expect(c.b.api.downgrade(h, c.ctx), locker.ErrUnsupported, "Downgrade")
			c.holds(h)
		}),
	newCase("Downgrade/OthersJoin", 1).needing(downgrade|shareable|madeByLocker).proves(
		"Downgrade makes a shared lock of an exclusive one without letting go: those who wait for a shared one hold it, too, and the token stays.",
		func(c *C) {
			a := c.openLocker()
			h := a.lock(c.x)
			token := h.Token()
			waiting := []*pending{c.waiter(locker.Shared()), a.queue(c.x, locker.Shared())}
			c.downgrade(h)
			c.downgrade(h) // twice is harmless
			for _, p := range waiting {
				c.release(p.held(soon))
			}
			c.release(c.holder(locker.Shared()))
			c.alive(h, "when it was made shared")
			if h.Token() != token {
				c.errorf("token %d became %d", token, h.Token())
			}
			c.holds(h)
		}),
	newCase("Downgrade/WriterStaysOut", 1).needing(downgrade|shareable|madeByLocker).proves(
		"A lock that was made shared still excludes exclusive ones.",
		func(c *C) {
			h := c.openLocker().lock(c.x)
			p := c.waiter()
			c.downgrade(h)
			time.Sleep(100 * time.Millisecond)
			p.waits("exclusive beside shared")
			c.holds(h)
			c.release(p.held(soon))
		}),
	newCase("Downgrade/Renewed", 1).needing(downgrade|shareable|madeByLocker).proves(
		"A lock that was made shared is renewed like any other.",
		func(c *C) {
			c.whileLiving(func(ttl time.Duration) error {
				h := c.openLocker(locker.WithTTL(ttl)).lock(c.name("x"))
				if err := c.b.api.downgrade(h, c.ctx); err != nil {
					return err
				}
				return c.lasts(h, 2*ttl)
			})
		}),
	newCase("Downgrade/NoGhost", 5).needing(downgrade|shareable|madeByLocker).proves(
		"Nothing is left of a lock that was made shared and released, nor of one that was made shared by a call that failed.",
		func(c *C) {
			other := c.name("y")
			a := c.openLocker()
			h := a.lock(c.x)
			reader := c.waiter(locker.Shared())
			c.downgrade(h)
			c.release(h)
			r := reader.held(soon)
			c.open().taken(c.x) // no more was given back than was held
			c.alive(r, "when another was released")
			c.release(r)
			c.expect(c.b.api.downgrade(h, c.ctx), locker.ErrReleased, "Downgrade of a lock that was released")
			short, cancel := context.WithTimeout(c.ctx, time.Millisecond)
			defer cancel()
			h = a.lock(other)
			_ = c.b.api.downgrade(h, short)
			c.release(h)
			c.leftFree(c.x, other)
		}),
	newCase("Downgrade/DestroyedUnseen", 1).needing(downgrade|shareable|madeByLocker|destroy).proves(
		"Downgrade of a lock that was removed by hand a moment ago leaves the successor alone, which stays exclusive.",
		func(c *C) {
			a, b, third := c.openLocker(), c.open(), c.open()
			for range 5 {
				begun := time.Now()
				h := a.lock(c.x)
				p := b.queue(c.x)
				c.destroyUnder(c.x, begun)
				next := p.held(soon)
				c.expect(c.b.api.downgrade(h, c.ctx), locker.ErrLost, "Downgrade of a lock that was removed")
				third.taken(c.x, locker.Shared())
				c.holds(next)
			}
		}),
	newCase("Downgrade/Lost", 3).needing(downgrade|shareable|madeByLocker|destroy).proves(
		"A lock that was made shared is lost like any other, and one that is lost cannot be made shared.",
		func(c *C) {
			h := c.openLocker().lock(c.x)
			c.downgrade(h)
			c.loses(c.watch(h))
			c.expect(c.b.api.downgrade(h, c.ctx), locker.ErrLost, "Downgrade of a lock that was lost")
			c.open().free(c.x, soon)
		}),
}

// downgrade makes a lock shared, which must succeed.
func (c *C) downgrade(h *locker.Lock) {
	c.tb.Helper()
	c.must(c.b.api.downgrade(h, c.ctx), "Downgrade")
}

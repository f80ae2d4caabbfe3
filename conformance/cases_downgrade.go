package conformance

import (
	"context"
	"time"

	"github.com/seed80cd6120/locker"
)

var downgradeCases = []*testCase{
	{
		name: "Downgrade/Refused", promise: 1, needs: noDowngrade | madeByLocker,
		says: "A backend that does not offer Downgrade refuses it with ErrUnsupported, and the lock stays what it was.",
		run: func(c *C) {
			h := c.openLocker().lock(c.x)
			c.expect(c.b.api.downgrade(h, c.ctx), locker.ErrUnsupported, "Downgrade")
			c.holds(h)
		},
	},
	{
		name: "Downgrade/OthersJoin", promise: 1, needs: downgrade | shareable | madeByLocker,
		says: "Downgrade makes a shared lock of an exclusive one without letting go: those who wait for a shared one hold it, too, and the token stays.",
		run: func(c *C) {
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
		},
	},
	{
		name: "Downgrade/WriterStaysOut", promise: 1, needs: downgrade | shareable | madeByLocker,
		says: "A lock that was made shared still excludes exclusive ones.",
		run: func(c *C) {
			h := c.openLocker().lock(c.x)
			p := c.waiter()
			c.downgrade(h)
			time.Sleep(100 * time.Millisecond)
			p.waits("exclusive beside shared")
			c.holds(h)
			c.release(p.held(soon))
		},
	},
	{
		name: "Downgrade/Renewed", promise: 1, needs: downgrade | shareable | madeByLocker,
		says: "A lock that was made shared is renewed like any other.",
		run: func(c *C) {
			c.whileLiving(func(ttl time.Duration) error {
				h := c.openLocker(locker.WithTTL(ttl)).lock(c.name("x"))
				if err := c.b.api.downgrade(h, c.ctx); err != nil {
					return err
				}
				return c.lasts(h, 2*ttl)
			})
		},
	},
	{
		name: "Downgrade/NoGhost", promise: 5, needs: downgrade | shareable | madeByLocker,
		says: "Nothing is left of a lock that was made shared and released, nor of one that was made shared by a call that failed.",
		run: func(c *C) {
			other := c.name("y")
			a := c.openLocker()
			h := a.lock(c.x)
			reader := c.waiter(locker.Shared())
			c.downgrade(h)
			c.release(h)
			c.release(reader.held(soon))
			c.expect(c.b.api.downgrade(h, c.ctx), locker.ErrReleased, "Downgrade of a lock that was released")
			short, cancel := context.WithTimeout(c.ctx, time.Millisecond)
			defer cancel()
			h = a.lock(other)
			_ = c.b.api.downgrade(h, short)
			c.release(h)
			c.exorcised(c.x, other)
		},
	},
	{
		name: "Downgrade/Lost", promise: 3, needs: downgrade | shareable | madeByLocker | destroy,
		says: "A lock that was made shared is lost like any other, and one that is lost cannot be made shared.",
		run: func(c *C) {
			h := c.openLocker().lock(c.x)
			c.downgrade(h)
			c.loses(c.watch(h))
			c.expect(c.b.api.downgrade(h, c.ctx), locker.ErrLost, "Downgrade of a lock that was lost")
			c.open().free(c.x, soon)
		},
	},
}

// downgrade makes a lock shared, which must succeed.
func (c *C) downgrade(h *locker.Lock) {
	c.tb.Helper()
	c.must(c.b.api.downgrade(h, c.ctx), "Downgrade")
}

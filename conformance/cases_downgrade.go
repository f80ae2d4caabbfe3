package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/seed80cd6120/locker"
)

var downgradeCases = []*testCase{
	{
		name: "Downgrade/Refused", promise: 1, needs: noDowngrade | madeByLocker,
		says: "A backend that does not offer Downgrade refuses it with ErrUnsupported, and the lock stays what it was.",
		run: func(c *C) {
			name := c.name("x")
			h := c.openLocker().lock(name)
			if err := c.b.api.downgrade(h, c.ctx); !errors.Is(err, locker.ErrUnsupported) {
				c.errorf("Downgrade: %v", err)
			}
			c.holds(h)
		},
	},
	{
		name: "Downgrade/OthersJoin", promise: 1, needs: downgrade | shareable | madeByLocker,
		says: "Downgrade makes a shared lock of an exclusive one without letting go: those who wait for a shared one hold it, too, and the token stays.",
		run: func(c *C) {
			name := c.name("x")
			a := c.openLocker()
			h := a.lock(name)
			token := h.Token()
			waiting := []*pending{c.open().queue(name, locker.Shared()), a.queue(name, locker.Shared())}
			for range 2 { // twice is harmless
				if err := c.b.api.downgrade(h, c.ctx); err != nil {
					c.fatalf("Downgrade: %v", err)
				}
			}
			for _, p := range waiting {
				c.release(p.held(soon))
			}
			c.release(c.open().acquire(name, locker.Shared()))
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
			name := c.name("x")
			h := c.openLocker().lock(name)
			p := c.open().queue(name)
			if err := c.b.api.downgrade(h, c.ctx); err != nil {
				c.fatalf("Downgrade: %v", err)
			}
			time.Sleep(100 * time.Millisecond)
			if p.finished() {
				c.errorf("exclusive beside shared: %v", p.err)
			}
			c.open().taken(name)
			c.alive(h, "when it was made shared")
			c.release(h)
			c.release(p.held(soon))
		},
	},
	{
		name: "Downgrade/Renewed", promise: 1, needs: downgrade | shareable | madeByLocker,
		says: "A lock that was made shared is renewed like any other.",
		run: func(c *C) {
			c.whileLiving(func(ttl time.Duration) error {
				name := c.name("x")
				h := c.openLocker(locker.WithTTL(ttl)).lock(name)
				if err := c.b.api.downgrade(h, c.ctx); err != nil {
					c.fatalf("Downgrade: %v", err)
				}
				return c.lasts(h, 2*ttl)
			})
		},
	},
	{
		name: "Downgrade/NoGhost", promise: 5, needs: downgrade | shareable | madeByLocker,
		says: "Nothing is left of a lock that was made shared and released, nor of one that was made shared by a call that failed.",
		run: func(c *C) {
			name, other := c.name("x"), c.name("y")
			a := c.openLocker()
			h := a.lock(name)
			reader := c.open().queue(name, locker.Shared())
			if err := c.b.api.downgrade(h, c.ctx); err != nil {
				c.fatalf("Downgrade: %v", err)
			}
			c.release(h)
			c.release(reader.held(soon))
			if err := c.b.api.downgrade(h, c.ctx); !errors.Is(err, locker.ErrReleased) {
				c.errorf("Downgrade of a lock that was released: %v", err)
			}
			short, cancel := context.WithTimeout(c.ctx, time.Millisecond)
			defer cancel()
			h = a.lock(other)
			_ = c.b.api.downgrade(h, short)
			c.release(h)
			c.exorcised(name, other)
		},
	},
	{
		name: "Downgrade/Lost", promise: 3, needs: downgrade | shareable | madeByLocker | destroy,
		says: "A lock that was made shared is lost like any other, and one that is lost cannot be made shared.",
		run: func(c *C) {
			name := c.name("x")
			h := c.openLocker().lock(name)
			if err := c.b.api.downgrade(h, c.ctx); err != nil {
				c.fatalf("Downgrade: %v", err)
			}
			w := c.watch(h)
			c.destroy(name)
			w.lostWithin(told, "the lock was destroyed")
			if err := c.b.api.downgrade(h, c.ctx); !errors.Is(err, locker.ErrLost) {
				c.errorf("Downgrade of a lock that was lost: %v", err)
			}
			c.open().free(name, soon)
		},
	},
}

// told is the time within which a holder is told that its lock was removed behind its back.
const told = time.Second + 200*time.Millisecond

// lasts looks whether a lock is held for d, and releases it.
func (c *C) lasts(h Holding, d time.Duration) error {
	other := c.open()
	for end := time.Now().Add(d); time.Now().Before(end) && c.ctx.Err() == nil; time.Sleep(d / 40) {
		if got, err := other.try(h.Name()); err == nil {
			c.release(got)
			return errors.New("another got the name while it was held")
		}
		if h.Context().Err() != nil {
			return cause(h)
		}
	}
	c.release(h)
	return nil
}

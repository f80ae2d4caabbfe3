package conformance

import (
	"errors"
	"time"

	"github.com/seed80cd6120/locker"
)

var sharedCases = []*testCase{
	{
		name: "Shared/Refused", promise: 1, needs: unshareable,
		says: "A backend that does not offer shared locks refuses them with ErrUnsupported and takes nothing.",
		run: func(c *C) {
			l, name := c.open(), c.name("x")
			if _, err := l.Acquire(c.ctx, name, locker.Shared()); !errors.Is(err, locker.ErrUnsupported) {
				c.errorf("Acquire: %v", err)
			}
			if _, err := l.try(name, locker.Shared()); !errors.Is(err, locker.ErrUnsupported) {
				c.errorf("TryAcquire: %v", err)
			}
			l.free(name, soon)
		},
	},
	{
		name: "Shared/Together", promise: 1, needs: shareable,
		says: "A shared lock is held together with other shared ones, also of other Lockers.",
		run: func(c *C) {
			name := c.name("x")
			a, b := c.open(), c.open()
			var held []Holding
			for _, l := range []*client{a, b, a, b} {
				held = append(held, l.acquire(name, locker.Shared()))
			}
			h, err := a.try(name, locker.Shared())
			if err != nil {
				c.fatalf("TryAcquire: %v", err)
			}
			for _, h := range append(held, h) {
				c.alive(h, "among others")
				c.release(h)
			}
			a.free(name, soon)
		},
	},
	{
		name: "Shared/AgainstExclusive", promise: 1, needs: shareable,
		says: "A shared lock and an exclusive one never overlap.",
		run: func(c *C) {
			name := c.name("x")
			a, b := c.open(), c.open()
			one, two := a.acquire(name, locker.Shared()), b.acquire(name, locker.Shared())
			b.taken(name)
			p := b.queue(name)
			c.release(one)
			time.Sleep(100 * time.Millisecond)
			if p.finished() {
				c.errorf("exclusive beside shared: %v", p.err)
			}
			c.release(two)
			h := p.held(soon)
			a.taken(name, locker.Shared())
			q := a.queue(name, locker.Shared())
			time.Sleep(100 * time.Millisecond)
			if q.finished() {
				c.errorf("shared beside exclusive: %v", q.err)
			}
			c.release(h)
			c.release(q.held(soon))
		},
	},
	{
		name: "Shared/ExclusiveDoesNotStarve", promise: 9, needs: shareable | fair,
		says: "Shared ones that come later do not overtake an exclusive one that waits.",
		run: func(c *C) {
			name := c.name("x")
			a, b, third := c.open(), c.open(), c.open()
			overtaken := 0
			for range rounds {
				h := a.acquire(name, locker.Shared())
				p := b.queue(name)
				if got, err := third.try(name, locker.Shared()); err == nil {
					overtaken++
					c.release(got)
				}
				c.release(h)
				c.release(p.held(soon))
			}
			if overtaken > rounds/2 {
				c.errorf("shared ones overtook an exclusive one in %d of %d rounds", overtaken, rounds)
			}
		},
	},
	{
		name: "Shared/Fencing", promise: 2, needs: shareable | fenced,
		says: "Token is strictly greater than that of every earlier holder, shared or not.",
		run: func(c *C) {
			name := c.name("x")
			a, b := c.open(), c.open()
			var t tokens
			for range 5 {
				one, two := a.acquire(name, locker.Shared()), b.acquire(name, locker.Shared())
				t.next(c, one)
				t.next(c, two)
				c.release(one)
				c.release(two)
				h := b.acquire(name)
				t.next(c, h)
				c.release(h)
			}
		},
	},
	{
		name: "Shared/Loss", promise: 3, needs: shareable,
		says: "A shared lock whose lease is over is lost before an exclusive one is granted.",
		run: func(c *C) {
			name := c.name("x")
			w := c.watch(c.open().acquire(name, locker.Shared(), locker.WithLease(c.b.TTL)))
			p := c.open().queue(name)
			h := p.held(c.b.TTL + soon)
			w.before(p.stamp)
			c.release(h)
		},
	},
}

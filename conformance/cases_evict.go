package conformance

import (
	"errors"
	"time"

	"github.com/seed80cd6120/locker"
)

var evictCases = []*testCase{
	{
		name: "Evict/Refused", promise: 13, needs: noEvict | madeByLocker,
		says: "A backend that does not offer Evict refuses it with ErrUnsupported and takes nothing from anybody.",
		run: func(c *C) {
			l, name := c.openLocker(), c.name("x")
			h := l.acquire(name)
			if err := c.b.api.evict(c.ctx, l.locker, locker.Position{Name: name, ID: "0123456789abcdef0123456789abcdef"}); !errors.Is(err, locker.ErrUnsupported) {
				c.errorf("Evict: %v", err)
			}
			c.holds(h)
		},
	},
	{
		name: "Evict/Holder", promise: 3, needs: evict | inspect | madeByLocker, kinds: allKinds,
		says: "A holder that is evicted is told within a second, with ErrLost, and the next gets the name.",
		run: func(c *C) {
			name := c.name("x")
			h := c.open().acquire(name, c.own...)
			w := c.watch(h)
			p := c.arrive(c.open(), name, 1, c.other...)
			c.evict(c.shown(name, 2)[0])
			w.lostWithin(told, "it was evicted")
			c.releaseLost(h)
			c.holds(p.held(soon))
			c.exorcised(name)
		},
	},
	{
		name: "Evict/OneOfMany", promise: 3, needs: evict | inspect | shareable | madeByLocker,
		says: "Evict takes the name from the holder that is meant, and from no other.",
		run: func(c *C) {
			name := c.name("x")
			held := make(map[string]Holding)
			for _, owner := range []string{"a", "b", "c"} {
				held[owner] = c.open().acquire(name, locker.Shared(), locker.As(owner))
			}
			w := c.watch(held["b"])
			for _, p := range c.shown(name, len(held)) {
				if p.Owner == "b" {
					c.evict(p)
				}
			}
			w.lostWithin(told, "it was evicted")
			for _, owner := range []string{"a", "c"} {
				c.alive(held[owner], "when another was evicted")
				c.open().taken(name)
				c.release(held[owner])
			}
			c.open().free(name, soon)
		},
	},
	{
		name: "Evict/Successor", promise: 7, needs: evict | inspect | madeByLocker,
		says: "Evict takes the name from the holder that Inspect has shown, and from nobody who came since: then it returns ErrNotFound.",
		run: func(c *C) {
			name := c.name("x")
			a, b := c.open(), c.open()
			h := a.acquire(name)
			seen := c.shown(name, 1)[0]
			for _, next := range []*client{b, a} {
				p := next.queue(name)
				c.release(h)
				h = p.held(soon)
				if err := c.b.api.evict(c.ctx, c.viewer(), seen); !errors.Is(err, locker.ErrNotFound) {
					c.errorf("Evict of a holder that has left: %v, want ErrNotFound", err)
				}
				time.Sleep(50 * time.Millisecond)
				c.alive(h, "when its predecessor was evicted")
				b.taken(name)
			}
			c.release(h)
			if err := c.b.api.evict(c.ctx, c.viewer(), seen); !errors.Is(err, locker.ErrNotFound) {
				c.errorf("Evict of a holder that has left a name that is free: %v, want ErrNotFound", err)
			}
			c.exorcised(name)
		},
	},
	{
		name: "Evict/Waiter", promise: 9, needs: evict | inspect | fair | madeByLocker,
		says: "A waiter that is evicted loses its place, waits again at the end, and gets the lock later.",
		run: func(c *C) {
			name := c.name("x")
			h := c.open().acquire(name)
			first := c.arrive(c.open(), name, 1, locker.As("first"))
			second := c.arrive(c.open(), name, 2, locker.As("second"))
			c.evict(c.shown(name, 3)[1])
			if !c.within(soon, func() bool { got := c.positions(name); return len(got) == 3 && got[2].Owner == "first" }) {
				c.errorf("who was evicted does not wait at the end: %+v", c.positions(name))
			}
			if first.finished() {
				c.fatalf("a waiter that was evicted did not wait again: %v", first.err)
			}
			c.alive(h, "when a waiter was evicted")
			c.release(h)
			h = second.held(soon)
			time.Sleep(20 * time.Millisecond)
			if first.finished() {
				c.errorf("who was evicted holds the name beside another: %v", first.err)
			}
			c.release(h)
			c.release(first.held(soon))
			c.exorcised(name)
		},
	},
}

// evict takes a name or a place from somebody who must be there.
func (c *C) evict(p locker.Position) {
	c.tb.Helper()
	if err := c.b.api.evict(c.ctx, c.viewer(), p); err != nil {
		c.fatalf("Evict %+v: %v", p, err)
	}
}

package conformance

import (
	"time"

	"github.com/seed80cd6120/locker"
)

var evictCases = []*testCase{
	newCase("Evict/Refused", 13).needing(noEvict|madeByLocker).proves(
		"A backend that does not offer Evict refuses it with ErrUnsupported and takes nothing from anybody.",
		func(c *C) {
			l := c.openLocker()
			h := l.acquire(c.x)
			err := c.b.api.evict(c.ctx, l.locker, locker.Position{Name: c.x, ID: "0123456789abcdef0123456789abcdef"})
			c.expect(err, locker.ErrUnsupported, "Evict")
			c.holds(h)
		}),
	newCase("Evict/Holder", 3).needing(evict|inspect|madeByLocker).of(allKinds).proves(
		"A holder that is evicted is told within a second, with ErrLost, and the next gets the name.",
		func(c *C) {
			h := c.holder(c.own...)
			w := c.watch(h)
			p := c.waiter(c.other...)
			c.evict(c.shown(c.x, 2)[0])
			w.lostWithin(told, "it was evicted")
			c.releaseLost(h)
			c.holds(p.held(soon))
			c.leftFree(c.x)
		}),
	newCase("Evict/OneOfMany", 3).needing(evict|inspect|shareable|madeByLocker).proves(
		"Evict takes the name from the holder that is meant, and from no other.",
		func(c *C) {
			held := make(map[string]Holding)
			for _, owner := range []string{"a", "b", "c"} {
				held[owner] = c.holder(locker.Shared(), locker.As(owner))
			}
			w := c.watch(held["b"])
			for _, p := range c.shown(c.x, len(held)) {
				if p.Owner == "b" {
					c.evict(p)
				}
			}
			w.lostWithin(told, "it was evicted")
			c.holds(held["a"])
			c.holds(held["c"])
			c.open().free(c.x, soon)
		}),
	newCase("Evict/Successor", 7).needing(evict|inspect|madeByLocker).proves(
		"Evict takes the name from the holder that Inspect has shown, and from nobody who came since: then it returns ErrNotFound.",
		func(c *C) {
			a, b := c.open(), c.open()
			h := a.acquire(c.x)
			seen := c.shown(c.x, 1)[0]
			evictSeen := func() {
				c.expect(c.b.api.evict(c.ctx, c.viewer(), seen), locker.ErrNotFound, "Evict of a holder that has left")
			}
			for _, next := range []*client{b, a} {
				p := next.queue(c.x)
				c.release(h)
				h = p.held(soon)
				evictSeen()
				time.Sleep(50 * time.Millisecond)
				c.alive(h, "when its predecessor was evicted")
				b.taken(c.x)
			}
			c.release(h)
			evictSeen()
			c.leftFree(c.x)
		}),
	newCase("Evict/Waiter", 9).needing(evict|inspect|fair|madeByLocker).proves(
		"A waiter that is evicted loses its place, waits again at the end, and gets the lock later.",
		func(c *C) {
			h := c.holder()
			first := c.open().begin(c.ctx, c.x, locker.As("first"))
			c.shown(c.x, 2)
			second := c.open().begin(c.ctx, c.x, locker.As("second"))
			c.evict(c.shown(c.x, 3)[1])
			if !c.within(soon, func() bool { got := c.positions(c.x); return len(got) == 3 && got[2].Owner == "first" }) {
				c.errorf("who was evicted does not wait at the end: %+v", c.positions(c.x))
			}
			first.waits("it was evicted")
			c.alive(h, "when a waiter was evicted")
			c.release(h)
			h = second.held(soon)
			time.Sleep(20 * time.Millisecond)
			first.waits("another holds the name")
			c.release(h)
			c.release(first.held(soon))
			c.leftFree(c.x)
		}),
}

// evict takes a name or a place from somebody who must be there.
func (c *C) evict(p locker.Position) {
	c.tb.Helper()
	c.must(c.b.api.evict(c.ctx, c.viewer(), p), "Evict %+v", p)
}

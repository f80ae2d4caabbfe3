package conformance

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/seed80cd6120/locker"
)

var manyCases = []*testCase{
	newCase("Many/WaitedNameDelaysNoOther", 10).proves(
		"A name that is waited for never delays another.",
		func(c *C) {
			c.holder()
			l := c.open()
			waiting := l.queueMany(30, c.x)
			for _, name := range c.names(30) {
				l.free(name, soon)
			}
			for _, p := range waiting {
				p.cancel()
			}
			for _, p := range waiting {
				p.returned(soon)
			}
		}),
	newCase("Many/TwoNamesWaited", 10).proves(
		"A name that is waited for never delays another that is waited for.",
		func(c *C) {
			x, y := c.name("x"), c.name("y")
			holder, l := c.open(), c.open()
			hx, hy := holder.acquire(x), holder.acquire(y)
			px, py := l.queue(x), l.queue(y)
			c.release(hy)
			c.release(py.held(soon))
			px.waits("another name was released")
			c.release(hx)
			c.release(px.held(soon))
		}),
	newCase("Many/NamesWaitedAtOnce", 10).proves(
		"However many names are waited for, they delay no other.",
		func(c *C) {
			names := c.names(64)
			holder, l := c.open(), c.open()
			held, waiting := make([]Holding, len(names)), make([]*pending, len(names))
			each(len(names), func(i int) {
				held[i] = holder.acquire(names[i])
				waiting[i] = l.begin(c.ctx, names[i])
			})
			c.settle()
			for _, name := range c.names(8) {
				l.free(name, soon)
			}
			for i, p := range waiting {
				p.waits("the name is held")
				c.release(held[i])
				c.release(p.held(soon))
			}
		}),
	newCase("Many/NamesHeldAtOnce", 10).proves(
		"One Locker holds any number of names, and renews them all.",
		func(c *C) {
			c.whileLiving(func(ttl time.Duration) error {
				l, other := c.open(locker.WithTTL(ttl)), c.open()
				held := make([]Holding, 80)
				each(len(held), func(i int) { held[i] = l.acquire(c.name(fmt.Sprint(i))) })
				time.Sleep(2 * ttl)
				for i, h := range held {
					if h.Context().Err() != nil {
						return fmt.Errorf("%d of %d locks: %w", i, len(held), cause(h))
					}
				}
				for _, h := range held[:5] {
					if _, err := other.try(h.Name()); !errors.Is(err, locker.ErrNotAcquired) {
						return fmt.Errorf("TryAcquire of %q, which is held: %v", h.Name(), err)
					}
				}
				errs := make([]error, len(held))
				each(len(held), func(i int) { errs[i] = held[i].Release(c.ctx) })
				if err := errors.Join(errs...); err != nil {
					return fmt.Errorf("release: %w", err)
				}
				other.free(held[0].Name(), soon)
				return nil
			})
			c.nothingLeft(cleanupBound)
		}),
	newCase("Many/Stress", 10).proves(
		"Any number of goroutines and names: each name has one holder at a time.",
		func(c *C) {
			const n, goroutines = 6, 24
			ls := c.openMany(2)
			names := c.names(n)
			var recs [n]record
			end := time.Now().Add(600 * time.Millisecond)
			together(goroutines, func(g int) {
				for time.Now().Before(end) && c.ctx.Err() == nil {
					i := rand.IntN(n)
					c.turn(ls[g%2], names[i], g, &recs[i], true)
				}
			})
			for i := range recs {
				recs[i].check(c, names[i])
			}
			c.leftFree(names...)
		}),
	newCase("Many/NotReentrant", 10).proves(
		"Acquiring a name again from the same process waits like any other.",
		func(c *C) {
			l := c.open()
			h := l.acquire(c.x)
			p := l.queue(c.x)
			l.taken(c.x)
			p.waits("this Locker holds the name")
			c.release(h)
			c.release(p.held(soon))
		}),
}

package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/seed80cd6120/locker"
)

var manyCases = []*testCase{
	{
		name: "Many/WaitedNameDelaysNoOther", promise: 10,
		says: "A name that is waited for never delays another.",
		run: func(c *C) {
			held := c.name("held")
			c.open().acquire(held)
			l := c.open()
			ctx, cancel := context.WithCancel(c.ctx)
			var waiting []*pending
			for range 30 {
				waiting = append(waiting, l.begin(ctx, held))
			}
			c.settle()
			for i := range 30 {
				l.free(c.name(fmt.Sprint(i)), soon)
			}
			cancel()
			for _, p := range waiting {
				p.returned(soon)
			}
		},
	},
	{
		name: "Many/TwoNamesWaited", promise: 10,
		says: "A name that is waited for never delays another that is waited for.",
		run: func(c *C) {
			x, y := c.name("x"), c.name("y")
			holder, l := c.open(), c.open()
			hx, hy := holder.acquire(x), holder.acquire(y)
			px, py := l.queue(x), l.queue(y)
			c.release(hy)
			c.release(py.held(soon))
			if px.finished() {
				c.errorf("%q was granted while it was held", x)
			}
			c.release(hx)
			c.release(px.held(soon))
		},
	},
	{
		name: "Many/NamesHeldAtOnce", promise: 10,
		says: "One Locker holds any number of names, and renews them all.",
		run: func(c *C) {
			c.whileLiving(func(ttl time.Duration) error {
				l, other := c.open(locker.WithTTL(ttl)), c.open()
				held := make([]Holding, 80)
				each(len(held), func(i int) { held[i] = l.acquire(c.name(fmt.Sprint(i))) })
				time.Sleep(2 * ttl)
				for i, h := range held {
					if h.Context().Err() != nil {
						return fmt.Errorf("%d of %d locks: %w", i, len(held), context.Cause(h.Context()))
					}
				}
				for _, h := range held[:5] {
					other.taken(h.Name())
				}
				errs := make([]error, len(held))
				each(len(held), func(i int) { errs[i] = held[i].Release(c.ctx) })
				if err := errors.Join(errs...); err != nil {
					return fmt.Errorf("release: %w", err)
				}
				other.free(held[0].Name(), soon)
				return nil
			})
			c.nothingLeft(ghostBound)
		},
	},
	{
		name: "Many/Stress", promise: 10,
		says: "Any number of goroutines and names: each name has one holder at a time.",
		run: func(c *C) {
			const names, goroutines = 6, 24
			ls := []*client{c.open(), c.open()}
			var name [names]string
			for i := range name {
				name[i] = c.name(fmt.Sprint(i))
			}
			var recs [names]record
			var wg sync.WaitGroup
			end := time.Now().Add(600 * time.Millisecond)
			for g := range goroutines {
				wg.Go(func() {
					for time.Now().Before(end) && c.ctx.Err() == nil {
						i := rand.IntN(names)
						c.turn(ls[g%2], name[i], g, &recs[i], true)
					}
				})
			}
			wg.Wait()
			for i := range recs {
				recs[i].check(c, name[i])
			}
			c.exorcised(name[:]...)
		},
	},
	{
		name: "Many/NotReentrant", promise: 10,
		says: "Acquiring a name again from the same process waits like any other.",
		run: func(c *C) {
			name := c.name("x")
			l := c.open()
			h := l.acquire(name)
			p := l.queue(name)
			l.taken(name)
			if p.finished() {
				c.fatalf("got a lock that this Locker holds: %v", p.err)
			}
			c.release(h)
			c.release(p.held(soon))
		},
	},
}

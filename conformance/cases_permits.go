package conformance

import (
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/seed80cd6120/locker"
)

var permitCases = []*testCase{
	{
		name: "Permits/Refused", promise: 1, needs: noPermits,
		says: "A backend that does not offer permits refuses them with ErrUnsupported and takes nothing.",
		run:  func(c *C) { c.refused(locker.Permits(1, 2)) },
	},
	{
		name: "Permits/NeverMore", promise: 1, needs: permits,
		says: "Holders of one name together never have more than n permits.",
		run: func(c *C) {
			const n, goroutines = 4, 3
			name := c.name("x")
			var rec record
			var wg sync.WaitGroup
			end := time.Now().Add(800 * time.Millisecond)
			for i := range 4 {
				l := c.open()
				for j := range goroutines {
					wg.Go(func() {
						for (time.Now().Before(end) || rec.count() < enough) && c.ctx.Err() == nil {
							k := 1 + rand.IntN(n)
							h := l.acquire(name, locker.Permits(k, n))
							begin := stamp()
							time.Sleep(rand.N(500 * time.Microsecond))
							rec.addKind(i*goroutines+j, h, begin, k, n)
							c.release(h)
						}
					})
				}
			}
			wg.Wait()
			rec.checkKinds(c, name)
			c.open().free(name, soon)
		},
	},
	{
		name: "Permits/KofN", promise: 1, needs: permits,
		says: "A try for k of n permits succeeds if so many are left, and is ErrNotAcquired if not.",
		run: func(c *C) {
			name := c.name("x")
			a, b := c.open(), c.open()
			two := locker.Permits(2, 5)
			one := a.acquire(name, two)
			other := b.acquire(name, two)
			b.taken(name, two)
			a.taken(name)
			last, err := b.try(name, locker.Permits(1, 5))
			if err != nil {
				c.fatalf("the last of 5 permits: %v", err)
			}
			a.taken(name, locker.Permits(1, 5))
			c.release(one)
			c.release(last)
			three, err := a.try(name, locker.Permits(3, 5))
			if err != nil {
				c.fatalf("3 of 5 permits while 2 are held: %v", err)
			}
			c.alive(other, "among others")
			c.release(other)
			c.release(three)
			b.free(name, soon)
		},
	},
	{
		name: "Permits/NoneIdle", promise: 8, needs: permits,
		says: "No permit is idle while somebody waits who could have it: each that is given back goes on at once.",
		run: func(c *C) {
			const n = 3
			name := c.name("x")
			one := locker.Permits(1, n)
			l := c.open()
			var held []Holding
			for range n {
				held = append(held, l.acquire(name, one))
			}
			var waiting []*pending
			for range 2 * n {
				waiting = append(waiting, c.open().begin(c.ctx, name, one))
			}
			c.settle()
			// One at first, while the others are held, and then all at once.
			c.release(held[0])
			next := c.next(waiting)
			for _, h := range held[1:] {
				c.alive(h, "although nobody released it")
			}
			for _, h := range append(held[1:], next) {
				c.release(h)
			}
			held = held[:0]
			for range n {
				held = append(held, c.next(waiting))
			}
			for _, h := range held {
				c.alive(h, "among others")
				c.release(h)
			}
			for range n - 1 {
				c.release(c.next(waiting))
			}
		},
	},
	{
		name: "Permits/BigDoesNotStarve", promise: 9, needs: permits | fair,
		says: "Waiters get permits in the order of arrival: those who want few do not overtake one who wants many.",
		run: func(c *C) {
			c.mostly("those who want few overtook one who wants many", func() bool {
				name := c.name("x")
				few, many := locker.Permits(1, 3), locker.Permits(3, 3)
				a := c.open()
				one, two := a.acquire(name, few), a.acquire(name, few)
				big := c.open().queue(name, many)
				small := c.open().queue(name, few)
				tried, err := c.open().try(name, few)
				overtaken := err == nil || small.finished()
				if err == nil {
					c.release(tried)
				}
				c.release(one)
				if !overtaken {
					time.Sleep(20 * time.Millisecond)
					overtaken = small.finished()
				}
				c.release(two)
				if overtaken {
					c.release(small.held(soon))
					c.release(big.held(soon))
				} else {
					c.release(big.held(soon))
					c.release(small.held(soon))
				}
				return !overtaken
			})
		},
	},
	{
		name: "Permits/DeathGivesBack", promise: 4, needs: permits | link,
		says: "The permits of a holder that is cut off for good are given back within TTL plus one second, while others hold theirs.",
		run: func(c *C) {
			name := c.name("x")
			a := c.openLink(locker.WithTTL(c.b.TTL))
			b := c.open()
			a.acquire(name, locker.Permits(2, 3))
			third := b.acquire(name, locker.Permits(1, 3))
			p := c.open().queue(name, locker.Permits(2, 3))
			died := time.Now()
			a.link.Freeze()
			h := p.freedBy(died)
			b.taken(name, locker.Permits(1, 3))
			c.alive(third, "when another died")
			c.release(h)
			c.release(third)
		},
	},
	{
		name: "Permits/Fencing", promise: 2, needs: permits | fenced,
		says: "A holding of all permits has a greater token than all before it, and a lower one than all after it.",
		run: func(c *C) {
			name := c.name("x")
			a, b := c.open(), c.open()
			var t tokens
			for range 5 {
				one, two := a.acquire(name, locker.Permits(1, 2)), b.acquire(name, locker.Permits(1, 2))
				t.above(c, one, two)
				c.release(one)
				c.release(two)
				all := b.acquire(name, locker.Permits(2, 2))
				t.next(c, all)
				c.release(all)
			}
		},
	},
}

// refused fails the case unless an acquisition with this option is refused and takes
// nothing.
func (c *C) refused(opt locker.AcquireOption) {
	c.tb.Helper()
	l, name := c.open(), c.name("x")
	for what, acquire := range l.ways() {
		h, err := acquire(c.ctx, name, opt)
		if !errors.Is(err, locker.ErrUnsupported) {
			c.errorf("%s: %v", what, err)
		}
		if err == nil {
			c.release(h)
			return
		}
	}
	l.free(name, soon)
}

// mostly looks several times whether an order is kept, and fails the case if it is broken
// more often than not: see rounds.
func (c *C) mostly(what string, kept func() bool) {
	c.tb.Helper()
	broken := 0
	for range rounds {
		if !kept() {
			broken++
		}
	}
	if broken > rounds/2 {
		c.errorf("%s in %d of %d rounds", what, broken, rounds)
	}
}

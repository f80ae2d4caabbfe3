package conformance

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/lateness"
)

var fairCases = []*testCase{
	newCase("Fair/Goroutines", 9).proves(
		"The goroutines of one process get the lock in the order of their arrival.",
		func(c *C) {
			c.inOrder(func() []*client { return slices.Repeat([]*client{c.open()}, 12) })
		}),
	newCase("Fair/Lockers", 9).needing(fair).of(aloneKinds).proves(
		"Waiters get the lock in the order of arrival: separate Lockers.",
		func(c *C) {
			c.inOrder(func() []*client {
				ls := c.openMany(7)
				for _, l := range ls {
					l.free(c.name("warm"), soon)
				}
				return ls
			})
		}),
	newCase("Fair/NoBarging", 9).needing(fair).proves(
		"A holder that releases and asks again queues behind those who waited.",
		func(c *C) {
			a, b := c.open(), c.open()
			c.mostly("the last holder overtook a waiter", func() bool {
				h := a.acquire(c.x)
				p := c.arrive(b, c.x, 1, briefly)
				c.release(h)
				again := a.begin(c.ctx, c.x)
				select {
				case <-again.done:
				case <-p.done:
				case <-c.ctx.Done():
				}
				if p.finished() {
					c.release(p.held(soon))
					c.release(again.held(soon))
					return true
				}
				c.release(again.held(soon))
				c.release(p.held(soon))
				return false
			})
		}),
	newCase("Fair/TryDoesNotOvertake", 9).needing(fair).of(aloneKinds).proves(
		"TryAcquire does not overtake those who wait.",
		func(c *C) {
			a, b, third := c.open(), c.open(), c.open()
			c.mostly("TryAcquire overtook a waiter", func() bool {
				h := a.acquire(c.x, c.own...)
				p := c.arrive(b, c.x, 1, briefly, c.own...)
				overtaken := make(chan bool)
				go func() {
					won := false
					for !won && !p.finished() && c.ctx.Err() == nil {
						if got, err := third.try(c.x, c.own...); err == nil {
							won = !p.finished()
							_ = got.Release(c.ctx)
						}
					}
					overtaken <- won
				}()
				c.release(h)
				next := p.held(soon)
				kept := !<-overtaken
				c.release(next)
				return kept
			})
		}),
	newCase("Fair/Shares", 9).needing(fair).proves(
		"Those who always want the lock get it equally often.",
		func(c *C) {
			const n = 6
			var counts []int64
			var begun time.Time // of the last
			for range 3 {
				begun = time.Now()
				counts = c.shares(n, 40)
				if 4*slices.Min(counts) >= slices.Max(counts) {
					return
				}
			}
			if slices.Max(counts) < 20 {
				c.tooSlow()
				return
			}
			c.unlessLate(begun, lateness.Limit, "%d Lockers on one name had shares of %v, and as unequal three times", n, counts)
		}),
	newCase("Fair/NobodyStarves", 9).proves(
		"Nobody starves: everybody who wants the lock gets it in the end, however many want it again and again.",
		func(c *C) {
			const n, turns = 5, 3
			var satisfied atomic.Int64
			ls := c.openMany(n)
			together(n, func(i int) {
				for had := 1; satisfied.Load() < n && c.ctx.Err() == nil; had++ {
					h := ls[i].acquire(c.x)
					time.Sleep(time.Millisecond)
					c.release(h)
					if had == turns {
						satisfied.Add(1)
					}
				}
			})
			if got := satisfied.Load(); got < n {
				c.errorf("only %d of %d had %d turns", got, n, turns)
			}
		}),
}

// mostly looks several times whether an order is kept, and fails the case if it is broken more often
// than not. Nobody can see from outside for sure whether a waiter has queued, and one that had not yet was not
// overtaken. A backend that lets others overtake shows it more often than not.
func (c *C) mostly(what string, kept func() bool) {
	c.tb.Helper()
	const rounds = 7
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

// inOrder queues waiters one after the other and looks in which order they get the
// lock. Nobody can see from outside when a waiter has queued, so that one wrong order
// may be the machine's; three are not.
func (c *C) inOrder(open func() []*client) {
	var order []int
	var begun time.Time // the last attempt
	for attempt := range 3 {
		begun = time.Now()
		name := c.name("x")
		h := c.open().acquire(name, c.own...)
		ls := open()
		var waiting []*pending
		for i, l := range ls {
			switch {
			case i == 0 || ls[i] != ls[i-1]:
				waiting = append(waiting, c.arrive(l, name, i+1, briefly, c.own...))
			case attempt > 0:
				waiting = append(waiting, l.queue(name, c.own...))
			default:
				waiting = append(waiting, l.begin(c.ctx, name, c.own...))
				time.Sleep(5 * time.Millisecond)
			}
		}
		c.release(h)
		order = order[:0]
		for range ls {
			next := c.next(waiting)
			for i, p := range waiting {
				if p == nil && !slices.Contains(order, i) {
					order = append(order, i)
				}
			}
			c.release(next)
		}
		if slices.IsSorted(order) {
			return
		}
	}
	c.unlessLate(begun, lateness.Limit,
		"those who came in the order 0, 1, 2, ... got the lock in the order %v, and in a wrong one three times", order)
}

// briefly is how long to look for a waiter in the queue that nothing depends on but how strict a case is.
const briefly = 250 * time.Millisecond

// arrive begins an Acquire and returns when it stands in the queue of name, behind so many
// others: after at most d, and for as long as this machine is late beyond that. Where that cannot be seen it waits for
// a while instead.
func (c *C) arrive(cl *client, name string, others int, d time.Duration, opts ...locker.AcquireOption) *pending {
	c.tb.Helper()
	if !c.b.Inspect || c.h.Open == nil {
		return cl.queue(name, opts...)
	}
	viewer := c.viewer()
	p := cl.begin(c.ctx, name, opts...)
	c.within(d, func() bool {
		seen, err := c.b.api.inspect(c.ctx, viewer, name)
		return err == nil && len(seen) > others || p.finished()
	})
	return p
}

// shares counts how often each of n Lockers gets a name until one has had it often
// enough to tell, or too much time has passed.
func (c *C) shares(n int, enough int64) []int64 {
	name := c.name("x")
	counts := make([]int64, n)
	ls := c.openMany(n)
	var over atomic.Bool
	end := time.Now().Add(4 * time.Second)
	together(n, func(i int) {
		for !over.Load() && c.ctx.Err() == nil {
			h := ls[i].acquire(name)
			time.Sleep(time.Millisecond) // those who were before have come again
			if counts[i]++; counts[i] >= enough || time.Now().After(end) {
				over.Store(true)
			}
			c.release(h)
		}
	})
	return counts
}

package conformance

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// rounds is how often an order is looked at that nobody can see from outside for
// sure: a waiter that had not queued yet was not overtaken. A backend that lets
// others overtake shows it more often than not.
const rounds = 7

var fairCases = []*testCase{
	{
		name: "Fair/Goroutines", promise: 9,
		says: "The goroutines of one process get the lock in the order of their arrival.",
		run: func(c *C) {
			c.inOrder(func() []*client {
				return slices.Repeat([]*client{c.open()}, 12)
			})
		},
	},
	{
		name: "Fair/Lockers", promise: 9, needs: fair, kinds: aloneKinds,
		says: "Waiters get the lock in the order of arrival: separate Lockers.",
		run: func(c *C) {
			c.inOrder(func() []*client {
				var ls []*client
				for range 7 {
					ls = append(ls, c.open())
				}
				return ls
			})
		},
	},
	{
		name: "Fair/NoBarging", promise: 9, needs: fair,
		says: "A holder that releases and asks again queues behind those who waited.",
		run: func(c *C) {
			name := c.name("x")
			a, b := c.open(), c.open()
			overtaken := 0
			for range rounds {
				h := a.acquire(name)
				p := b.queue(name)
				c.release(h)
				again := a.begin(c.ctx, name)
				select {
				case <-again.done:
					if !p.finished() {
						overtaken++
					}
				case <-p.done:
				case <-c.ctx.Done():
				}
				// Whoever it was, the other is next.
				if !p.finished() {
					c.release(again.held(soon))
					c.release(p.held(soon))
				} else {
					c.release(p.held(soon))
					c.release(again.held(soon))
				}
			}
			if overtaken > rounds/2 {
				c.errorf("the last holder overtook a waiter in %d of %d rounds", overtaken, rounds)
			}
		},
	},
	{
		name: "Fair/TryDoesNotOvertake", promise: 9, needs: fair, kinds: aloneKinds,
		says: "TryAcquire does not overtake those who wait.",
		run: func(c *C) {
			name := c.name("x")
			a, b, third := c.open(), c.open(), c.open()
			overtaken := 0
			for range rounds {
				h := a.acquire(name, c.own...)
				p := b.queue(name, c.own...)
				trying := make(chan bool)
				go func() {
					won := false
					for !won && !p.finished() && c.ctx.Err() == nil {
						if got, err := third.try(name, c.own...); err == nil {
							won = !p.finished()
							_ = got.Release(c.ctx)
						}
					}
					trying <- won
				}()
				c.release(h)
				next := p.held(soon)
				if <-trying {
					overtaken++
				}
				c.release(next)
			}
			if overtaken > rounds/2 {
				c.errorf("TryAcquire overtook a waiter in %d of %d rounds", overtaken, rounds)
			}
		},
	},
	{
		name: "Fair/Shares", promise: 9, needs: fair,
		says: "Those who always want the lock get it equally often.",
		run: func(c *C) {
			const n = 6
			var counts []int64
			for range 3 {
				counts = c.shares(n, 40)
				if 4*slices.Min(counts) >= slices.Max(counts) {
					return
				}
			}
			if slices.Max(counts) < 20 {
				c.tooSlow()
				return
			}
			c.errorf("%d Lockers on one name had shares of %v, and as unequal three times", n, counts)
		},
	},
	{
		name: "Fair/NobodyStarves", promise: 9,
		says: "Nobody starves: everybody who wants the lock gets it in the end, however many want it again and again.",
		run: func(c *C) {
			const n, turns = 5, 3
			name := c.name("x")
			var satisfied atomic.Int64
			var wg sync.WaitGroup
			for range n {
				l := c.open()
				wg.Go(func() {
					for i := 0; satisfied.Load() < n && c.ctx.Err() == nil; i++ {
						h := l.acquire(name)
						time.Sleep(time.Millisecond)
						c.release(h)
						if i+1 == turns {
							satisfied.Add(1)
						}
					}
				})
			}
			wg.Wait()
			if got := satisfied.Load(); got < n {
				c.errorf("only %d of %d had %d turns", got, n, turns)
			}
		},
	},
}

// inOrder queues waiters one after the other and looks in which order they get the
// lock. Nobody can see from outside when a waiter has queued, so that one wrong order
// may be the machine's; three are not.
func (c *C) inOrder(open func() []*client) {
	var order []int
	for attempt := range 3 {
		name := c.name("x")
		h := c.open().acquire(name, c.own...)
		ls := open()
		got := make(chan int, len(ls))
		var wg sync.WaitGroup
		var waiting []*pending
		for i, l := range ls {
			p := l.begin(c.ctx, name, c.own...)
			waiting = append(waiting, p)
			wg.Go(func() {
				<-p.done
				if p.err != nil {
					c.errorf("acquire: %v", p.err)
					return
				}
				got <- i
				c.release(p.lock)
			})
			if i == 0 || ls[i] != ls[i-1] || attempt > 0 {
				c.settle()
			} else {
				time.Sleep(5 * time.Millisecond)
			}
		}
		c.release(h)
		wg.Wait()
		close(got)
		order = order[:0]
		for i := range got {
			order = append(order, i)
		}
		if slices.IsSorted(order) && len(order) == len(waiting) {
			return
		}
	}
	c.errorf("those who came in the order 0, 1, 2, ... got the lock in the order %v, and in a wrong one three times", order)
}

// shares counts how often each of n Lockers gets a name until one has had it often
// enough to tell, or too much time has passed.
func (c *C) shares(n int, enough int64) []int64 {
	name := c.name("x")
	counts := make([]int64, n)
	ls := make([]*client, n)
	for i := range ls {
		ls[i] = c.open()
	}
	var wg sync.WaitGroup
	var over atomic.Bool
	end := time.Now().Add(4 * time.Second)
	for i, l := range ls {
		wg.Go(func() {
			for !over.Load() && c.ctx.Err() == nil {
				h := l.acquire(name)
				time.Sleep(time.Millisecond) // those who were before have come again
				if counts[i]++; counts[i] >= enough || time.Now().After(end) {
					over.Store(true)
				}
				c.release(h)
			}
		})
	}
	wg.Wait()
	return counts
}

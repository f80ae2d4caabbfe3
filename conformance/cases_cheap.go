package conformance

import (
	"fmt"
	"slices"
	"time"

	"github.com/seed80cd6120/locker/internal/lateness"
)

var cheapCases = []*testCase{
	{
		name: "Cheap/IdleWaiters", promise: 8, needs: requests, alone: true,
		says: "Waiters are woken by the server, not by asking again and again: an idle waiter of any kind costs the server nothing.",
		run: func(c *C) {
			const n = 20
			const window = 2 * time.Second
			begun := time.Now()
			name := c.name("x")
			h := c.open().acquire(name)
			var waiters []*client
			for i := range n {
				l := c.open()
				l.free(c.name(fmt.Sprint(i)), soon)
				waiters = append(waiters, l)
			}
			c.settle()
			idle := c.requestsIn(window) // what clients cost that do not wait
			limit := c.b.IdleRate*n*window.Seconds() + n/2
			var waiting []*pending
			kinds := claimed(allKinds, c.b)
			for i, l := range waiters {
				waiting = append(waiting, l.begin(c.ctx, name, kinds[i%len(kinds)].own...))
			}
			c.settle()
			// Who asks again and again does so in each window; who was interrupted, by a server that was late, in one.
			var costs []int64
			for len(costs) < 3 && (len(costs) == 0 || float64(slices.Min(costs)) > limit) {
				c.quiet()
				costs = append(costs, c.requestsIn(window)-idle)
			}
			if cost := slices.Min(costs); float64(cost) > limit {
				c.tooMany(begun, "%d waiters cost %d requests in each %v more than as many clients that do not wait, want at most %.0f", n, cost, window, limit)
			}
			c.release(h)
			for range n {
				c.release(c.next(waiting))
			}
		},
	},
	{
		name: "Cheap/NoHerd", promise: 8, needs: requests, kinds: aloneKinds, alone: true,
		says: "A release wakes one waiter and not the herd.",
		run: func(c *C) {
			const n = 20
			begun := time.Now()
			name := c.name("x")
			alone := c.costAlone()
			h := c.open().acquire(name, c.other...)
			var waiting []*pending
			for range n {
				waiting = append(waiting, c.open().begin(c.ctx, name, c.own...))
			}
			c.settle()
			c.quiet()
			idle := c.requestsIn(300 * time.Millisecond)
			before := c.requests()
			c.release(h)
			h = c.next(waiting)
			time.Sleep(200 * time.Millisecond)
			cost := c.requests() - before - 2*idle
			if limit := int64((2 + n/4) * alone); cost > limit {
				c.tooMany(begun, "one release with %d waiters led to %d requests until the next holder was there, want at most %d", n, cost, limit)
			}
			before = c.requests()
			start := time.Now()
			c.release(h)
			for range n - 1 {
				c.release(c.next(waiting))
			}
			cost = c.requests() - before - int64(float64(idle)*time.Since(start).Seconds()/0.3)
			if limit := int64(4 * n * alone); cost > limit { // a herd makes n times n
				c.tooMany(begun, "%d waiters had their turn with %d requests, want at most %d", n-1, cost, limit)
			}
		},
	},
	{
		name: "Cheap/GoroutinesWaitAtHome", promise: 8, needs: requests, alone: true,
		says: "The goroutines of one process queue there, and at most one of them waits at the server.",
		run: func(c *C) {
			const n = 100
			begun := time.Now()
			name := c.name("x")
			alone := c.costAlone()
			h := c.open().acquire(name)
			l := c.open()
			l.free(c.name("warm"), soon)
			c.quiet()
			before := c.requests()
			var waiting []*pending
			for range n {
				waiting = append(waiting, l.begin(c.ctx, name))
			}
			c.settle()
			if cost, limit := c.requests()-before, int64(n/4*alone); cost > limit {
				c.tooMany(begun, "%d goroutines of one Locker began to wait with %d requests, want at most %d", n, cost, limit)
			}
			c.release(h)
			for range n {
				c.release(c.next(waiting))
			}
		},
	},
	{
		name: "Cheap/WokenByTheServer", promise: 8, kinds: allKinds,
		says: "Waiters are woken by the server, not by looking again after a while.",
		run: func(c *C) {
			name := c.name("x")
			a, b := c.open(), c.open()
			var took []time.Duration
			start := time.Now()
			for range 9 {
				h := a.acquire(name, c.other...)
				p := b.queue(name, c.own...)
				released := time.Now()
				c.release(h)
				next := p.held(longTTL + soon)
				took = append(took, time.Since(released))
				c.release(next)
			}
			slices.Sort(took)
			// A poll every 50 ms would do; the promise is kept by far less.
			if median, limit := took[len(took)/2], 250*time.Millisecond+c.late.Slack(start); median > limit {
				c.errorf("a release reached the next waiter after %v (median), want at most %v", median, limit)
			}
		},
	},
}

// tooMany says that there were too many requests since begun, unless this machine was late then: waiters that hear
// nothing for long look by themselves.
func (c *C) tooMany(begun time.Time, format string, args ...any) {
	c.tb.Helper()
	if c.late.Worst(begun) > lateness.Limit {
		c.tooSlow()
		return
	}
	c.errorf(format, args...)
}

func (c *C) requests() int64 {
	c.tb.Helper()
	n, err := c.h.Requests(c.ctx)
	if err != nil {
		c.fatalf("Requests: %v", err)
	}
	return n
}

func (c *C) requestsIn(window time.Duration) int64 {
	c.tb.Helper()
	before := c.requests()
	time.Sleep(window)
	return c.requests() - before
}

// costAlone is the number of requests of an acquisition and its release that nobody
// disturbs, at least 2: where there are several servers it is that of all of them,
// and the measure of what a waiter may cost.
func (c *C) costAlone() float64 {
	c.tb.Helper()
	l, name := c.open(), c.name("alone")
	l.free(name, soon)
	c.quiet()
	const times = 10
	before := c.requests()
	for range times {
		l.free(name, soon)
	}
	return max(2, float64(c.requests()-before)/times)
}

// quiet waits until the server has not much to do, or for a while.
func (c *C) quiet() {
	c.tb.Helper()
	for range 20 {
		if c.requestsIn(50*time.Millisecond) <= 2 {
			return
		}
	}
}

// next waits for whichever comes first.
func (c *C) next(waiting []*pending) Holding {
	c.tb.Helper()
	var got Holding
	if !c.within(longTTL+soon, func() bool {
		for i, p := range waiting {
			if p != nil && p.finished() {
				waiting[i] = nil
				if p.err != nil {
					c.fatalf("acquire %q: %v", p.name, p.err)
				}
				got = p.lock
				return true
			}
		}
		return false
	}) {
		c.fatalf("no waiter got the lock")
	}
	return got
}

package conformance

import (
	"slices"
	"time"

	"github.com/seed80cd6120/locker/internal/lateness"
)

var cheapCases = []*testCase{
	newCase("Cheap/IdleWaiters", 8).needing(requests).apart().proves(
		"Waiters are woken by the server, not by asking again and again: an idle waiter of any kind costs the server nothing.",
		func(c *C) {
			const n = 20
			const window = 2 * time.Second
			h := c.holder()
			waiters := c.openMany(n)
			for i, name := range c.names(n) {
				waiters[i].free(name, soon)
			}
			c.settle()
			idle := c.requestsIn(window) // what clients cost that do not wait
			limit := c.b.IdleRate*n*window.Seconds() + n/2
			var waiting []*pending
			kinds := claimed(allKinds, c.b)
			for i, l := range waiters {
				waiting = append(waiting, l.begin(c.ctx, c.x, kinds[i%len(kinds)].own...))
			}
			c.settle()
			// Who asks again and again does so in each window; who was interrupted, by a server that was late, in one.
			var costs []int64
			for len(costs) < 3 && (len(costs) == 0 || float64(slices.Min(costs)) > limit) {
				c.quiet()
				costs = append(costs, c.requestsIn(window)-idle)
			}
			c.costs(slices.Min(costs), int64(limit), "%d waiters in each %v, beyond as many clients that do not wait", n, window)
			c.release(h)
			c.turns(n, waiting)
		}),
	newCase("Cheap/NoHerd", 8).needing(requests).of(aloneKinds).apart().proves(
		"A release wakes one waiter and not the herd.",
		func(c *C) {
			const n = 20
			alone := c.costAlone()
			h := c.holder(c.other...)
			var waiting []*pending
			for _, l := range c.openMany(n) {
				waiting = append(waiting, l.begin(c.ctx, c.x, c.own...))
			}
			c.settle()
			c.quiet()
			const window = 300 * time.Millisecond
			idle := c.requestsIn(window)
			idleSince := func(start time.Time) int64 {
				return int64(float64(idle) * time.Since(start).Seconds() / window.Seconds())
			}
			// A herd comes with each release; who just looks because a server was late comes with one.
			limit := int64((2 + n/4) * alone)
			var costs []int64
			for len(costs) < 3 && (len(costs) == 0 || slices.Min(costs) > limit) {
				before, start := c.requests(), time.Now()
				c.release(h)
				h = c.next(waiting)
				time.Sleep(200 * time.Millisecond)
				costs = append(costs, c.requests()-before-max(2*idle, idleSince(start)))
			}
			c.costs(slices.Min(costs), limit, "one release with about %d waiters, until the next holder was there", n)
			left := n - len(costs)
			before := c.requests()
			start := time.Now()
			c.release(h)
			c.turns(left, waiting)
			cost := c.requests() - before - idleSince(start)
			c.costs(cost, int64(4*n*alone), "the turns of %d waiters", left) // a herd makes n times n
		}),
	newCase("Cheap/GoroutinesWaitAtHome", 8).needing(requests).apart().proves(
		"The goroutines of one process queue there, and at most one of them waits at the server.",
		func(c *C) {
			const n = 100
			alone := c.costAlone()
			h := c.holder()
			l := c.open()
			l.free(c.name("warm"), soon)
			c.quiet()
			before := c.requests()
			waiting := l.queueMany(n, c.x)
			c.costs(c.requests()-before, int64(6*alone), "the queueing of %d goroutines of one Locker", n)
			c.release(h)
			c.turns(n, waiting)
		}),
	newCase("Cheap/WokenByTheServer", 8).of(allKinds).proves(
		"Waiters are woken by the server, not by looking again after a while.",
		func(c *C) {
			// A poll every 50 ms would do; the promise is kept by far less.
			const rounds, limit = 5, 250 * time.Millisecond
			n, granted := 3, 1 // by a release
			if c.kind == sharing {
				n, granted = 4, 4
			}
			a, others := c.open(), c.openMany(n)
			var slow []time.Duration
			for range rounds {
				alone := a.alone()
				held := []Holding{a.acquire(c.x, c.other...)}
				var waiting []*pending
				for _, l := range others {
					waiting = append(waiting, l.queue(c.x, c.own...))
				}
				var worst time.Duration
				for range n / granted {
					released := time.Now()
					c.release(held...)
					held = nil
					for range granted {
						held = append(held, c.next(waiting))
					}
					if took := time.Since(released); took > limit+3*alone+c.late.Slack(released) {
						worst = max(worst, took)
					}
				}
				c.release(held...)
				if worst > 0 {
					slow = append(slow, worst)
				}
				if len(slow) > rounds/2 {
					c.errorf("most releases reached the next waiters after more than %v and three times what a free name takes, %v: %v", limit, alone, slow)
					return
				}
			}
		}),
}

// alone returns how long it takes to acquire and release a name that nobody else wants: some round trips to the server.
func (cl *client) alone() time.Duration {
	cl.c.tb.Helper()
	start := time.Now()
	cl.free(cl.c.name("alone"), soon)
	return time.Since(start)
}

// costs fails the case if there were more requests than limit, unless this machine was late: waiters that hear
// nothing for long look by themselves. Ten times the limit is a failure on any machine.
func (c *C) costs(n, limit int64, what string, args ...any) {
	c.tb.Helper()
	what, args = what+" cost %d requests, want at most %d", append(args, n, limit)
	switch {
	case n > 10*limit:
		c.errorf(what, args...)
	case n > limit:
		c.unlessLate(c.begun, lateness.Limit, what, args...)
	}
}

func (c *C) requests() int64 {
	c.tb.Helper()
	n, err := c.h.Requests(c.ctx)
	c.must(err, "Requests")
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

package conformance

import (
	"context"
	"time"

	"github.com/seed80cd6120/locker"
)

var litterCases = []*testCase{
	newCase("Litter/UsedNames", 12).needing(leftovers).of(allKinds).proves(
		"After use nothing is left on the server that grows with the number of names ever used.",
		func(c *C) {
			l := c.open()
			names := c.names(100)
			each(len(names), func(i int) {
				h := l.acquire(names[i], c.own...)
				if i == 0 {
					left, err := c.h.Leftovers(c.ctx, c.mine())
					c.must(err, "Leftovers")
					if len(left) == 0 {
						c.errorf("Leftovers does not see a lock that is held")
					}
				}
				c.release(h)
			})
			c.nothingLeft(soon)
		}),
	newCase("Litter/Contention", 12).needing(leftovers).of(allKinds).proves(
		"After use nothing is left on the server of those who waited and of those who gave up.",
		func(c *C) {
			ls := c.openMany(4)
			h := ls[0].acquire(c.x, c.other...) // in what follows perhaps nobody waits, if this machine is late
			p := ls[1].queue(c.x, c.own...)
			p.cancel()
			p.returned(soon)
			c.release(h)
			together(len(ls), func(n int) {
				kind := c.own
				if n == 0 { // for whom the others have to wait
					kind = c.other
				}
				for i := range 15 {
					ctx, cancel := context.WithTimeout(c.ctx, time.Duration(i+1)*2*time.Millisecond)
					if h, err := ls[n].Acquire(ctx, c.x, kind...); err == nil {
						time.Sleep(6 * time.Millisecond)
						c.release(h)
					}
					if h, err := ls[n].try(c.x, kind...); err == nil {
						c.release(h)
					}
					cancel()
				}
			})
			c.nothingLeft(soon)
		}),
	newCase("Litter/ClosedLockers", 12).needing(leftovers).of(allKinds).proves(
		"A Locker that was closed leaves nothing on the server, not even when it held locks and waited for others.",
		func(c *C) {
			for _, name := range c.names(4) {
				l := c.open()
				l.acquire(name, c.other...)
				l.queue(name, c.own...)
				l.close()
			}
			c.nothingLeft(soon)
		}),
	newCase("Litter/Expired", 12).needing(leftovers).of(allKinds).proves(
		"Locks whose lease ran out leave nothing on the server.",
		func(c *C) {
			l := c.open()
			for _, name := range c.names(10) {
				l.acquire(name, c.own.with(locker.WithLease(c.b.TTL))...)
			}
			c.nothingLeft(c.b.TTL + soon)
		}),
	newCase("Litter/Dead", 12).needing(leftovers|process).of(allKinds).proves(
		"Processes that were killed while they held and waited leave nothing on the server.",
		func(c *C) {
			holder, waiter := c.spawn(c.b.TTL), c.spawn(c.b.TTL)
			for _, name := range c.names(5) {
				holder.acquire(name)
				waiter.ask(order{Do: "acquire", Name: name})
			}
			c.settle()
			holder.kill()
			waiter.kill()
			c.nothingLeft(2*c.b.TTL + soon)
		}),
	newCase("Litter/GoroutinesOfNames", 12).proves(
		"After use nothing is left on the client that grows with the number of names ever used: no goroutine.",
		func(c *C) {
			l := c.open()
			c.costsNoGoroutines(20, 100, 20, "names were used", func(n int) {
				for _, name := range c.names(n) {
					c.release(l.acquire(name))
				}
			})
		}),
	newCase("Litter/GoroutinesOfWaiters", 12).proves(
		"Nothing is left on the client of acquisitions that were cancelled: no goroutine, watch or subscription.",
		func(c *C) {
			c.holder()
			l := c.open()
			c.costsNoGoroutines(4, 60, 15, "waits were cancelled", func(n int) {
				for range n / 2 {
					p, q := l.begin(c.ctx, c.x), l.begin(c.ctx, c.x)
					time.Sleep(5 * time.Millisecond)
					p.cancel()
					q.cancel()
					p.returned(soon)
					q.returned(soon)
				}
			})
		}),
	newCase("Litter/GoroutinesOfHeld", 12).proves(
		"A lock that is held costs no goroutine.",
		func(c *C) {
			l := c.open()
			c.costsNoGoroutines(1, 60, 30, "locks were held", func(n int) {
				for _, name := range c.names(n) {
					l.acquire(name)
				}
			})
		}),
	newCase("Litter/GoroutinesOfLost", 12).proves(
		"Nothing is left on the client of locks that were lost.",
		func(c *C) {
			l := c.open()
			c.costsNoGoroutines(3, 60, 15, "locks were lost", func(n int) {
				var held []Holding
				for _, name := range c.names(n) {
					held = append(held, l.acquire(name, locker.WithLease(shortLease)))
				}
				for _, h := range held {
					c.ends(h, "its lease was over")
				}
			})
		}),
}

// costsNoGoroutines does something so often, after it was done a few times before, and fails the case if it leaves
// more than limit goroutines.
func (c *C) costsNoGoroutines(before, n, limit int, what string, do func(n int)) {
	c.tb.Helper()
	do(before)
	steady := c.steady()
	do(n)
	c.noMoreGoroutinesThan(steady+limit, n, what)
}

// steady is the number of the case's goroutines once it no longer falls.
func (c *C) steady() int {
	least, since := c.goroutines(), time.Now()
	c.within(5*time.Second, func() bool {
		if n := c.goroutines(); n < least {
			least, since = n, time.Now()
		}
		return time.Since(since) > 200*time.Millisecond
	})
	return least
}

// noMoreGoroutinesThan waits until the case has at most limit goroutines, after something was done n times.
func (c *C) noMoreGoroutinesThan(limit, n int, what string) {
	c.tb.Helper()
	for end := time.Now().Add(soon); c.goroutines() > limit; time.Sleep(200 * time.Millisecond) { // to count them is dear
		if time.Now().After(end) || c.ctx.Err() != nil {
			c.errorf("%d goroutines, at most %d wanted after %d %s:\n%s", c.goroutines(), limit, n, what, stacks(c.id))
			return
		}
	}
}

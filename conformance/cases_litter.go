package conformance

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/seed80cd6120/locker"
)

var litterCases = []*testCase{
	{
		name: "Litter/UsedNames", promise: 12, needs: leftovers, kinds: allKinds,
		says: "After use nothing is left on the server that grows with the number of names ever used.",
		run: func(c *C) {
			l := c.open()
			each(100, func(i int) {
				h, err := l.Acquire(c.ctx, c.name(fmt.Sprint(i)), c.own...)
				if err != nil {
					c.errorf("acquire: %v", err)
					return
				}
				if i == 0 {
					left, err := c.h.Leftovers(c.ctx, c.mine())
					if err != nil || len(left) == 0 {
						c.errorf("Leftovers does not see a lock that is held: %q %v", left, err)
					}
				}
				c.release(h)
			})
			c.nothingLeft(soon)
		},
	},
	{
		name: "Litter/Contention", promise: 12, needs: leftovers, kinds: allKinds,
		says: "After use nothing is left on the server of those who waited and of those who gave up.",
		run: func(c *C) {
			name := c.name("x")
			var wg sync.WaitGroup
			for n := range 4 {
				l := c.open()
				kind := c.own
				if n == 0 { // for whom the others have to wait
					kind = c.other
				}
				wg.Go(func() {
					for i := range 15 {
						ctx, cancel := context.WithTimeout(c.ctx, time.Duration(i+1)*2*time.Millisecond)
						if h, err := l.Acquire(ctx, name, kind...); err == nil {
							time.Sleep(6 * time.Millisecond)
							c.release(h)
						}
						if h, err := l.TryAcquire(c.ctx, name, kind...); err == nil {
							c.release(h)
						}
						cancel()
					}
				})
			}
			wg.Wait()
			c.nothingLeft(soon)
		},
	},
	{
		name: "Litter/ClosedLockers", promise: 12, needs: leftovers, kinds: allKinds,
		says: "A Locker that was closed leaves nothing on the server, not even when it held locks and waited for others.",
		run: func(c *C) {
			for i := range 4 {
				l := c.open()
				name := c.name(fmt.Sprint(i))
				l.acquire(name, c.other...)
				l.queue(name, c.own...)
				if err := l.Close(c.ctx); err != nil {
					c.errorf("close: %v", err)
				}
			}
			c.nothingLeft(soon)
		},
	},
	{
		name: "Litter/Expired", promise: 12, needs: leftovers, kinds: allKinds,
		says: "Locks whose lease ran out leave nothing on the server.",
		run: func(c *C) {
			l := c.open()
			for i := range 10 {
				l.acquire(c.name(fmt.Sprint(i)), c.own.with(locker.WithLease(c.b.TTL))...)
			}
			c.nothingLeft(c.b.TTL + soon)
		},
	},
	{
		name: "Litter/Dead", promise: 12, needs: leftovers | process, kinds: allKinds,
		says: "Processes that were killed while they held and waited leave nothing on the server.",
		run: func(c *C) {
			holder, waiter := c.spawn(c.b.TTL), c.spawn(c.b.TTL)
			for i := range 5 {
				name := c.name(fmt.Sprint(i))
				holder.acquire(name)
				waiter.ask(order{Do: "acquire", Name: name})
			}
			c.settle()
			holder.kill()
			waiter.kill()
			c.nothingLeft(2*c.b.TTL + soon)
		},
	},
	{
		name: "Litter/GoroutinesOfNames", promise: 12,
		says: "After use nothing is left on the client that grows with the number of names ever used: no goroutine.",
		run: func(c *C) {
			l := c.open()
			use := func(from, to int) {
				for i := from; i < to; i++ {
					h := l.acquire(c.name(fmt.Sprint(i)))
					c.release(h)
				}
			}
			use(0, 20)
			before := c.steady()
			use(20, 120)
			c.noMoreGoroutinesThan(before+20, "100 names were used")
		},
	},
	{
		name: "Litter/GoroutinesOfWaiters", promise: 12,
		says: "Nothing is left on the client of acquisitions that were cancelled: no goroutine, watch or subscription.",
		run: func(c *C) {
			name := c.name("x")
			c.open().acquire(name)
			l := c.open()
			wait := func(n int) {
				ctx, cancel := context.WithCancel(c.ctx)
				var waiting []*pending
				for range n {
					waiting = append(waiting, l.begin(ctx, name))
				}
				time.Sleep(5 * time.Millisecond)
				cancel()
				for _, p := range waiting {
					p.returned(soon)
				}
			}
			wait(3)
			before := c.steady()
			for range 30 {
				wait(2)
			}
			c.noMoreGoroutinesThan(before+15, "60 waits that were cancelled")
		},
	},
	{
		name: "Litter/GoroutinesOfHeld", promise: 12,
		says: "A lock that is held costs no goroutine.",
		run: func(c *C) {
			l := c.open()
			l.acquire(c.name("first"))
			before := c.steady()
			for i := range 60 {
				l.acquire(c.name(fmt.Sprint(i)))
			}
			c.noMoreGoroutinesThan(before+30, "60 locks were held")
		},
	},
	{
		name: "Litter/GoroutinesOfLost", promise: 12,
		says: "Nothing is left on the client of locks that were lost.",
		run: func(c *C) {
			l := c.open()
			lose := func(n int) {
				var held []Holding
				for i := range n {
					held = append(held, l.acquire(c.name(fmt.Sprint(i)), locker.WithLease(shortLease)))
				}
				for _, h := range held {
					c.ends(h, "its lease was over")
				}
			}
			lose(3)
			before := c.steady()
			lose(60)
			c.noMoreGoroutinesThan(before+15, "60 locks were lost")
		},
	},
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

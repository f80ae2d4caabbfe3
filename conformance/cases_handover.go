package conformance

import (
	"sync"
	"time"

	"github.com/seed80cd6120/locker"
)

var handOverCases = []*testCase{
	{
		name: "HandOver/Contended", promise: 1, needs: madeByLocker,
		says: "With WithHandOver holders of one name never overlap, and tokens rise across hand-overs and the grants of other Lockers.",
		run: func(c *C) {
			name := c.name("x")
			var rec record
			var wg sync.WaitGroup
			end := time.Now().Add(800 * time.Millisecond)
			for i, d := range []time.Duration{5 * time.Millisecond, 50 * time.Millisecond, 0} {
				l := c.openLocker(locker.WithHandOver(d))
				for j := range 5 {
					wg.Go(func() {
						for (time.Now().Before(end) || rec.count() < enough) && c.ctx.Err() == nil {
							c.turn(l, name, 5*i+j, &rec, false)
						}
					})
				}
			}
			wg.Wait()
			rec.check(c, name)
			c.exorcised(name)
		},
	},
	{
		name: "HandOver/Tokens", promise: 2, needs: madeByLocker | fenced,
		says: "Tokens rise at each hand-over, and beyond the last that was handed over when another Locker gets the name.",
		run: func(c *C) {
			name := c.name("x")
			a, b := c.openLocker(locker.WithHandOver(longTTL)), c.open()
			var t tokens
			for range 3 {
				h := Holding(a.acquire(name))
				t.next(c, h)
				for range 20 {
					p := a.begin(c.ctx, name)
					c.release(h)
					h = p.held(soon)
					t.next(c, h)
				}
				c.release(h)
				other := b.acquire(name)
				t.next(c, other)
				c.release(other)
			}
		},
	},
	{
		name: "HandOver/OthersWait", promise: 9, needs: madeByLocker | fair,
		says: "Whoever waits in another Locker gets the name when the time of the hand-over and one holding are over.",
		run: func(c *C) {
			const d, holding = 100 * time.Millisecond, 2 * time.Millisecond
			name := c.name("x")
			a, b := c.openLocker(locker.WithHandOver(d)), c.open()
			stop := make(chan struct{})
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for c.ctx.Err() == nil {
						h := a.acquire(name)
						time.Sleep(holding)
						c.release(h)
						select {
						case <-stop:
							return
						default:
						}
					}
				})
			}
			var took, limit time.Duration
			for range 5 {
				start := time.Now()
				h := b.acquire(name)
				took = time.Since(start)
				c.release(h)
				// What the network and the server take is not promised; see Cheap/WokenByTheServer.
				limit = d + holding + 250*time.Millisecond + c.late.Slack(start)
				if took <= limit {
					break
				}
			}
			close(stop)
			wg.Wait()
			if took > limit {
				c.errorf("another Locker waited for %v, five times, want at most %v", took, limit)
			}
		},
	},
	{
		name: "HandOver/Lost", promise: 3, needs: madeByLocker | destroy,
		says: "A lock that was handed over is lost when its name was taken away from the Locker.",
		run: func(c *C) {
			name := c.name("x")
			a := c.openLocker(locker.WithHandOver(longTTL))
			h := Holding(a.acquire(name))
			for range 3 {
				p := a.begin(c.ctx, name)
				c.release(h)
				h = p.held(soon)
			}
			w := c.watch(h)
			c.destroy(name)
			w.lostWithin(told, "the lock was destroyed")
			c.releaseLost(h)
			c.holds(c.open().acquire(name))
			c.exorcised(name)
		},
	},
	{
		name: "HandOver/Shared", promise: 3, needs: madeByLocker | shareable | destroy,
		says: "Readers of one Locker that were handed one holding hold together, apart from writers, and lose it together.",
		run: func(c *C) {
			name := c.name("x")
			a, b := c.openLocker(locker.WithHandOver(longTTL)), c.open()
			var held []Holding
			for range 5 {
				held = append(held, a.acquire(name, locker.Shared()))
			}
			p := b.queue(name)
			for _, h := range held {
				if p.finished() {
					c.fatalf("exclusive beside shared: %v", p.err)
				}
				c.release(h)
			}
			c.release(p.held(soon))
			held = held[:0]
			for range 3 {
				held = append(held, a.acquire(name, locker.Shared()))
			}
			var watches []*watch
			for _, h := range held {
				watches = append(watches, c.watch(h))
			}
			c.destroy(name)
			for _, w := range watches {
				w.lostWithin(told, "the lock was destroyed")
			}
			b.free(name, soon)
		},
	},
	{
		name: "HandOver/Waiters", promise: 5, needs: madeByLocker,
		says: "A goroutine that gives up while others hand a name over leaves nothing behind, and whoever comes next gets it.",
		run: func(c *C) {
			name := c.name("x")
			var rec record
			var wg sync.WaitGroup
			for i := range 2 { // so that some wait at the server, too
				l := c.openLocker(locker.WithHandOver(20 * time.Millisecond))
				for range 4 {
					wg.Go(func() {
						for range 25 {
							c.turn(l, name, i, &rec, true)
						}
					})
				}
			}
			wg.Wait()
			rec.check(c, name)
			c.exorcised(name)
		},
	},
}

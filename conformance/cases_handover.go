package conformance

import (
	"sync/atomic"
	"time"

	"github.com/seed80cd6120/locker"
)

var handOverCases = []*testCase{
	newCase("HandOver/Contended", 1).needing(madeByLocker).proves(
		"With WithHandOver holders of one name never overlap, and tokens rise across hand-overs and the grants of other Lockers.",
		func(c *C) {
			var ls []*client
			for _, d := range []time.Duration{5 * time.Millisecond, 50 * time.Millisecond, 0} {
				ls = append(ls, c.openLocker(locker.WithHandOver(d)))
			}
			c.contest(800*time.Millisecond, ls, 5, func(cl *client, who int, rec *record) { c.turn(cl, c.x, who, rec, false) })
			c.leftFree(c.x)
		}),
	newCase("HandOver/Tokens", 2).needing(madeByLocker|fenced).proves(
		"Tokens rise at each hand-over, and beyond the last that was handed over when another Locker gets the name.",
		func(c *C) {
			a, b := c.openLocker(locker.WithHandOver(longTTL)), c.open()
			for range 3 {
				c.release(a.handedOver(20))
				c.release(c.rises(b.acquire(c.x)))
			}
		}),
	newCase("HandOver/OthersWait", 9).needing(madeByLocker|fair).proves(
		"Whoever waits in another Locker gets the name when the time of the hand-over and one holding are over.",
		func(c *C) {
			const d, holding = 100 * time.Millisecond, 2 * time.Millisecond
			a, b := c.openLocker(locker.WithHandOver(d)), c.open()
			var over atomic.Bool
			var turns atomic.Int64
			var took, limit time.Duration
			together(5, func(i int) {
				if i > 0 {
					for !over.Load() && c.ctx.Err() == nil {
						h := a.acquire(c.x)
						turns.Add(1)
						time.Sleep(holding)
						c.release(h)
					}
					return
				}
				defer over.Store(true)
				c.within(soon, func() bool { return turns.Load() > 4 }) // until all of them want it
				for range 5 {
					alone := b.alone()
					start := time.Now()
					h := b.acquire(c.x)
					took = time.Since(start)
					c.release(h)
					// What the network and the server take is not promised; see Cheap/WokenByTheServer.
					limit = d + holding + 250*time.Millisecond + 3*alone + c.late.Slack(start)
					if took <= limit {
						return
					}
				}
			})
			if took > limit {
				c.errorf("another Locker waited for %v, five times, want at most %v", took, limit)
			}
		}),
	newCase("HandOver/Lost", 3).needing(madeByLocker|destroy).proves(
		"A lock that was handed over is lost when its name was taken away from the Locker.",
		func(c *C) {
			h := c.openLocker(locker.WithHandOver(longTTL)).handedOver(3)
			c.loses(c.watch(h))
			c.releaseLost(h)
			c.holds(c.holder())
			c.leftFree(c.x)
		}),
	newCase("HandOver/Shared", 3).needing(madeByLocker|shareable|destroy).proves(
		"Readers of one Locker that were handed one holding hold together, apart from writers, and lose it together.",
		func(c *C) {
			a, b := c.openLocker(locker.WithHandOver(longTTL)), c.open()
			read := func(n int) (held []Holding) {
				for range n {
					held = append(held, a.acquire(c.x, locker.Shared()))
				}
				return held
			}
			held := read(5)
			p := b.queue(c.x)
			for _, h := range held {
				p.waits("exclusive beside shared")
				c.release(h)
			}
			c.release(p.held(soon))
			var watches []*watch
			for _, h := range read(3) {
				watches = append(watches, c.watch(h))
			}
			c.destroy(c.x)
			for _, w := range watches {
				w.lostWithin(told, "the lock was destroyed")
			}
			b.free(c.x, soon)
		}),
	newCase("HandOver/Waiters", 5).needing(madeByLocker).proves(
		"A goroutine that gives up while others hand a name over leaves nothing behind, and whoever comes next gets it.",
		func(c *C) {
			var rec record
			var ls []*client
			for range 2 { // so that some wait at the server, too
				ls = append(ls, c.openLocker(locker.WithHandOver(20*time.Millisecond)))
			}
			together(8, func(i int) {
				for range 25 {
					c.turn(ls[i%2], c.x, i, &rec, true)
				}
			})
			rec.check(c, c.x)
			c.leftFree(c.x)
		}),
}

// handedOver returns the name of the case held by the client, after it was handed over n times within it.
func (cl *client) handedOver(n int) Holding {
	c := cl.c
	c.tb.Helper()
	h := c.rises(cl.acquire(c.x))
	for range n {
		p := cl.begin(c.ctx, c.x)
		c.release(h)
		h = c.rises(p.held(soon))
	}
	return h
}

package conformance

import (
	"sync/atomic"
	"time"

	"github.com/seed80cd6120/locker"
)

var sharedCases = []*testCase{
	newCase("Shared/Refused", 1).needing(unshareable).proves(
		"A backend that does not offer shared locks refuses them with ErrUnsupported and takes nothing.",
		func(c *C) { c.unsupported(locker.Shared()) }),
	newCase("Shared/Together", 1).needing(shareable).proves(
		"A shared lock is held together with other shared ones, also of other Lockers.",
		func(c *C) {
			a, b := c.open(), c.open()
			var held []Holding
			for _, l := range []*client{a, b, a, b} {
				held = append(held, l.acquire(c.x, locker.Shared()))
			}
			c.releaseAll(append(held, a.takes(c.x, locker.Shared())), "among others")
			a.free(c.x, soon)
		}),
	newCase("Shared/Many", 1).needing(shareable).proves(
		"Any number of shared ones hold a name at once, and whoever wants it alone gets it after the last.",
		func(c *C) {
			ls := c.openMany(8)
			held := make([]Holding, 64)
			each(len(held), func(i int) { held[i] = ls[i%len(ls)].acquire(c.x, locker.Shared()) })
			p := c.waiter()
			for _, h := range held {
				c.alive(h, "among many")
				p.waits("exclusive beside shared")
				c.release(h)
			}
			c.release(p.held(soon))
		}),
	newCase("Shared/OneLocker", 10).needing(shareable).proves(
		"Readers of one Locker hold together, also if they come while somebody else holds the name.",
		func(c *C) {
			h := c.holder()
			readers := c.open().queueMany(8, c.x, locker.Shared())
			c.release(h)
			var held []Holding
			for _, p := range readers {
				held = append(held, p.held(soon)) // none is released before all are there
			}
			c.releaseAll(held, "among others")
		}),
	newCase("Shared/AgainstExclusive", 1).needing(shareable).proves(
		"A shared lock and an exclusive one never overlap.",
		func(c *C) {
			a, b := c.open(), c.open()
			one, two := a.acquire(c.x, locker.Shared()), b.acquire(c.x, locker.Shared())
			b.taken(c.x)
			p := b.queue(c.x)
			c.release(one)
			time.Sleep(100 * time.Millisecond)
			p.waits("exclusive beside shared")
			c.release(two)
			h := p.held(soon)
			a.taken(c.x, locker.Shared())
			q := a.queue(c.x, locker.Shared())
			time.Sleep(100 * time.Millisecond)
			q.waits("shared beside exclusive")
			c.release(h)
			c.release(q.held(soon))
		}),
	newCase("Shared/ExclusiveDoesNotStarve", 9).needing(shareable|fair).proves(
		"Shared ones that come later do not overtake an exclusive one that waits.",
		func(c *C) {
			a, b, third := c.open(), c.open(), c.open()
			c.mostly("shared ones overtook an exclusive one", func() bool {
				h := a.acquire(c.x, locker.Shared())
				p := c.arrive(b, c.x, 1, briefly)
				got, err := third.try(c.x, locker.Shared())
				if err == nil {
					c.release(got)
				}
				c.release(h)
				c.release(p.held(soon))
				return err != nil
			})
		}),
	newCase("Shared/WritersServed", 9).needing(shareable).proves(
		"Nobody starves: a writer among readers that come and go is served.",
		func(c *C) {
			var served atomic.Bool
			var readers atomic.Int64
			// leave reports whether a reader that leaves leaves others behind.
			leave := func() bool {
				n := readers.Load()
				return n >= 2 && readers.CompareAndSwap(n, n-1)
			}
			ls := c.openMany(4)
			together(len(ls)+1, func(i int) {
				if i == len(ls) {
					writer := c.open()
					for range 5 {
						c.release(writer.begin(c.ctx, c.x).held(soon))
					}
					served.Store(true)
					return
				}
				for !served.Load() && c.ctx.Err() == nil {
					h := ls[i].acquire(c.x, locker.Shared())
					readers.Add(1)
					// Each leaves behind another, as long as others come at all.
					if !c.within(20*time.Millisecond+c.late.Slack(time.Now().Add(-time.Second)), leave) {
						readers.Add(-1)
					}
					c.release(h)
				}
			})
		}),
	newCase("Shared/Fencing", 2).needing(shareable|fenced).proves(
		"An exclusive holding has a greater token than all before it, and a lower one than all after it; between shared ones that may overlap tokens say nothing.",
		func(c *C) {
			a, b := c.open(), c.open()
			for range 5 {
				one, two := a.acquire(c.x, locker.Shared()), b.acquire(c.x, locker.Shared())
				c.rises(one, two)
				p := b.queue(c.x)
				c.release(two, one)
				h := c.rises(p.held(soon))
				q := a.queue(c.x, locker.Shared())
				c.release(h)
				c.release(c.rises(q.held(soon)))
			}
		}),
	newCase("Shared/Loss", 3).needing(shareable).proves(
		"A shared lock whose lease is over is lost before an exclusive one is granted.",
		func(c *C) {
			w := c.watch(c.holder(locker.Shared(), locker.WithLease(c.b.TTL)))
			p := c.waiter()
			h := p.held(c.b.TTL + soon)
			w.before(p.stamp)
			c.release(h)
		}),
	newCase("Shared/DeadReader", 4).needing(shareable|link).proves(
		"A dead reader does not live on other readers' renewals.",
		func(c *C) {
			dead := c.openLink(locker.WithTTL(c.b.TTL))
			live := c.open(locker.WithTTL(6 * c.b.TTL))
			dead.acquire(c.x, locker.Shared())
			h := live.acquire(c.x, locker.Shared())
			p := c.waiter()
			died := time.Now()
			dead.link.Freeze()
			// Until the dead one has no claim any more and the other has renewed.
			time.Sleep(max(c.afterDeath(died), 5*c.b.TTL/2))
			if h.Context().Err() != nil && c.lostByRight(h) {
				c.tooSlow()
				return
			}
			c.alive(h, "when another reader died")
			p.waits("exclusive beside a reader that lives")
			released := time.Now()
			c.release(h)
			next := p.held(6*c.b.TTL + soon)
			if took, limit := time.Since(released), 2*c.b.TTL+time.Second+c.late.Slack(released); took > limit {
				c.lateBy(took-limit, "free %v after the release of the only reader alive, want at most %v", took, limit)
			}
			c.release(next)
		}),
}

package conformance

import (
	"sync"
	"time"

	"github.com/seed80cd6120/locker"
)

var fencingCases = []*testCase{
	newCase("Fencing/OneLocker", 2).needing(fenced).proves(
		"Token is strictly greater than that of every earlier holder of the name.",
		func(c *C) {
			l := c.open()
			for range 100 {
				c.release(c.rises(l.acquire(c.x)))
			}
		}),
	newCase("Fencing/ManyLockers", 2).needing(fenced).of(aloneKinds).proves(
		"Token is strictly greater than that of every earlier holder of the name, whoever that was and however it got the lock.",
		func(c *C) {
			ls := c.openMany(3)
			for i := range 6 {
				h := c.rises(ls[i%3].acquire(c.x, c.own...))
				p := ls[(i+1)%3].queue(c.x, c.own...)
				c.release(h)
				c.release(c.rises(p.held(soon)))
				if h, err := ls[(i+2)%3].try(c.x, c.own...); err == nil {
					c.release(c.rises(h))
				}
			}
		}),
	newCase("Fencing/Contended", 2).needing(fenced).proves(
		"Tokens rise in the order of the holdings, also when many want the name.",
		func(c *C) { c.contend(4, 3, 500*time.Millisecond, false) }),
	newCase("Fencing/AfterDestroy", 2).needing(fenced|destroy).of(allKinds).proves(
		"Token is strictly greater than that of every earlier holder, also when exclusion was lost: the lock was deleted by hand.",
		func(c *C) {
			a, b := c.open(), c.open()
			for range 3 {
				h := c.rises(a.acquire(c.x, c.own...))
				c.destroy(c.x)
				second := c.rises(b.acquire(c.x, c.other...))
				_ = h.Release(c.ctx)
				c.release(second)
			}
		}),
	newCase("Fencing/AfterExpiry", 2).needing(fenced).of(allKinds).proves(
		"Token is strictly greater than that of every earlier holder, also of one whose lease ran out.",
		func(c *C) {
			c.rises(c.holder(c.own.with(locker.WithLease(c.b.TTL))...))
			c.release(c.rises(c.holder(c.other...)))
		}),
	newCase("Fencing/AfterTakeover", 2).needing(fenced|link).of(allKinds).proves(
		"Token is strictly greater than that of every earlier holder, also of one that was cut off.",
		func(c *C) {
			a := c.openLink(locker.WithTTL(c.b.TTL))
			c.rises(a.acquire(c.x, c.own...))
			a.link.Freeze()
			c.release(c.rises(c.holder(c.other...)))
			a.link.Heal()
			c.rises(a.acquire(c.x, c.own...))
		}),
	newCase("Fencing/AfterRestart", 2).needing(fenced|stop).apart().proves(
		"Token is strictly greater than that of every earlier holder, also when the server was restarted, with its data or without.",
		func(c *C) {
			a := c.open()
			for range 20 {
				c.release(c.rises(a.acquire(c.x)))
			}
			c.restart()
			c.release(c.rises(a.acquire(c.x)))
			c.release(c.rises(c.holder()))
		}),
	newCase("Fencing/Steady", 2).needing(fenced).proves(
		"Token is one number for one holding, from its acquisition on and after its end.",
		func(c *C) {
			h := c.open(locker.WithTTL(c.b.TTL)).acquire(c.x)
			first := h.Token()
			time.Sleep(c.b.TTL) // over renewals
			for _, when := range []string{"while it was held", "at the release"} {
				if t := h.Token(); t != first {
					c.errorf("token %d became %d %s", first, t, when)
				}
				_ = h.Release(c.ctx)
			}
		}),
	newCase("Fencing/Distinct", 2).needing(fenced).proves(
		"No token is given twice for one name, even to Lockers that all try at the same moment.",
		func(c *C) {
			ls := c.openMany(6)
			var seen sync.Map
			together(len(ls), func(i int) {
				for range 15 {
					h := ls[i].acquire(c.x)
					if _, twice := seen.Swap(h.Token(), true); twice {
						c.proven("token %d was given twice", h.Token())
					}
					c.release(h)
				}
			})
		}),
	newCase("Fencing/Unclaimed", 2).needing(unfenced).proves(
		"A backend that offers no fencing has the token 0, so that nobody takes it for one.",
		func(c *C) {
			h := c.holder()
			if h.Token() != 0 {
				c.errorf("token %d, although the backend does not claim Fenced", h.Token())
			}
			c.release(h)
		}),
}

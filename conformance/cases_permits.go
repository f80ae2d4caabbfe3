package conformance

import (
	"math/rand/v2"
	"time"

	"github.com/seed80cd6120/locker"
)

var permitCases = []*testCase{
	newCase("Permits/Refused", 1).needing(noPermits).proves(
		"A backend that does not offer permits refuses them with ErrUnsupported and takes nothing.",
		func(c *C) { c.unsupported(locker.Permits(1, 2)) }),
	newCase("Permits/NeverMore", 1).needing(permits).proves(
		"Holders of one name together never have more than n permits.",
		func(c *C) {
			const n = 4
			c.contest(800*time.Millisecond, c.openMany(4), 3, func(cl *client, who int, rec *record) {
				k := 1 + rand.IntN(n)
				c.hold(cl, who, rec, k, n, locker.Permits(k, n))
			})
		}),
	newCase("Permits/KofN", 1).needing(permits).proves(
		"A try for k of n permits succeeds if so many are left, and is ErrNotAcquired if not.",
		func(c *C) {
			a, b := c.open(), c.open()
			two := locker.Permits(2, 5)
			one := a.acquire(c.x, two)
			other := b.acquire(c.x, two)
			b.taken(c.x, two)
			a.taken(c.x)
			last := b.takes(c.x, locker.Permits(1, 5))
			a.taken(c.x, locker.Permits(1, 5))
			c.release(one, last)
			three := a.takes(c.x, locker.Permits(3, 5))
			c.alive(other, "among others")
			c.release(other, three)
			b.free(c.x, soon)
			const most = locker.MaxPermits
			rest := a.acquire(c.x, locker.Permits(most-1, most))
			last = b.takes(c.x, locker.Permits(1, most))
			b.taken(c.x, locker.Permits(1, most))
			c.release(rest, last)
		}),
	newCase("Permits/NoneIdle", 8).needing(permits).proves(
		"No permit is idle while somebody waits who could have it: each that is given back goes on at once.",
		func(c *C) {
			const n = 3
			one := locker.Permits(1, n)
			l := c.open()
			var held []Holding
			for range n {
				held = append(held, l.acquire(c.x, one))
			}
			var waiting []*pending
			for range 2 * n {
				waiting = append(waiting, c.open().begin(c.ctx, c.x, one))
			}
			c.settle()
			// One at first, while the others are held, and then all at once.
			c.release(held[0])
			next := c.next(waiting)
			for _, h := range held[1:] {
				c.alive(h, "although nobody released it")
			}
			c.release(append(held[1:], next)...)
			held = held[:0]
			for range n {
				held = append(held, c.next(waiting))
			}
			c.releaseAll(held, "among others")
			c.turns(n-1, waiting)
		}),
	newCase("Permits/BigDoesNotStarve", 9).needing(permits|fair).proves(
		"Waiters get permits in the order of arrival: those who want few do not overtake one who wants many.",
		func(c *C) {
			c.mostly("those who want few overtook one who wants many", func() bool {
				name := c.name("x")
				few, many := locker.Permits(1, 3), locker.Permits(3, 3)
				a := c.open()
				one, two := a.acquire(name, few), a.acquire(name, few)
				big := c.arrive(c.open(), name, 2, briefly, many)
				small := c.arrive(c.open(), name, 3, briefly, few)
				tried, err := c.open().try(name, few)
				overtaken := err == nil || small.finished()
				if err == nil {
					c.release(tried)
				}
				c.release(one)
				if !overtaken {
					time.Sleep(20 * time.Millisecond)
					overtaken = small.finished()
				}
				c.release(two)
				c.turns(2, []*pending{big, small})
				return !overtaken
			})
		}),
	newCase("Permits/DeathGivesBack", 4).needing(permits|link).proves(
		"The permits of a holder that is cut off for good are given back within TTL plus one second, while others hold theirs.",
		func(c *C) {
			a, b := c.openLink(locker.WithTTL(c.b.TTL)), c.open()
			a.acquire(c.x, locker.Permits(2, 3))
			third := b.acquire(c.x, locker.Permits(1, 3))
			p := c.waiter(locker.Permits(2, 3))
			a.link.Freeze()
			h := p.freedBy(time.Now())
			b.taken(c.x, locker.Permits(1, 3))
			c.alive(third, "when another died")
			c.release(h, third)
		}),
	newCase("Permits/Fencing", 2).needing(permits|fenced).proves(
		"A holding of all permits has a greater token than all before it, and a lower one than all after it.",
		func(c *C) {
			a, b := c.open(), c.open()
			for range 5 {
				one, two := a.acquire(c.x, locker.Permits(1, 2)), b.acquire(c.x, locker.Permits(1, 2))
				c.rises(one, two)
				c.release(one, two)
				c.release(c.rises(b.acquire(c.x, locker.Permits(2, 2))))
			}
		}),
}

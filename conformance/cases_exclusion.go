package conformance

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/seed80cd6120/locker"
)

var exclusionCases = []*testCase{
	newCase("Exclusion/Goroutines", 1).proves(
		"Two holders of one name never overlap: goroutines of one Locker.",
		func(c *C) { c.contend(1, 16, 600*time.Millisecond, false) }),
	newCase("Exclusion/Lockers", 1).of(aloneKinds).proves(
		"Two holders of one name never overlap: separate Lockers.",
		func(c *C) { c.contend(8, 1, 800*time.Millisecond, false) }),
	newCase("Exclusion/Disturbed", 1).of(aloneKinds).proves(
		"Two holders of one name never overlap, also when others try, give up and time out at random moments.",
		func(c *C) { c.contend(4, 4, 800*time.Millisecond, true) }),
	newCase("Exclusion/Processes", 1).needing(process).proves(
		"Two holders of one name never overlap: separate processes.",
		func(c *C) {
			children := []*childProcess{c.spawn(longTTL), c.spawn(longTTL)}
			own := c.open()
			var rec record
			for d := 700 * time.Millisecond; ; d *= 4 {
				var loops []*asked
				for _, ch := range children {
					loops = append(loops, ch.ask(order{Do: "loop", Name: c.x, Timeout: d, Hold: 200 * time.Microsecond}))
				}
				for end := time.Now().Add(d); time.Now().Before(end) && c.ctx.Err() == nil; {
					c.turn(own, c.x, 0, &rec, false)
				}
				all := true // of the children had a turn
				for _, l := range loops {
					r := l.must("loop")
					all = all && len(r.Spans) > 0
					rec.spans = append(rec.spans, r.Spans...)
				}
				if all || !c.b.Fair {
					break
				}
				if d > soon/2 {
					c.errorf("a child process got no turn in %v", d)
					break
				}
			}
			rec.check(c, c.x)
		}),
	newCase("Exclusion/TryOfHeld", 1).proves(
		"TryAcquire takes the name if it is free and returns ErrNotAcquired if not.",
		func(c *C) {
			a, b := c.open(), c.open()
			h := a.acquire(c.x)
			for range 5 {
				a.taken(c.x)
				b.taken(c.x)
			}
			c.alive(h, "while others tried to take it")
			c.release(h)
			b.free(c.x, soon)
			a.free(c.x, soon)
		}),
	newCase("Exclusion/AcquireOfHeld", 1).proves(
		"Acquire waits until the name is free.",
		func(c *C) {
			h := c.holder()
			p := c.waiter()
			time.Sleep(300 * time.Millisecond)
			p.waits("the name is held")
			var rec record
			rec.add(1, h, stamp())
			c.release(h)
			second := p.held(soon)
			rec.add(2, second, p.stamp)
			rec.check(c, c.x)
			c.release(second)
		}),
	newCase("Exclusion/RenewedWhileHeld", 1).of(allKinds).proves(
		"A live holder renews by itself: nobody else gets the name however long it is held.",
		func(c *C) {
			c.whileLiving(func(ttl time.Duration) error {
				return c.lasts(c.open(locker.WithTTL(ttl)).acquire(c.name("x"), c.own...), 3*ttl+ttl/2, c.other...)
			})
		}),
	newCase("Exclusion/WaitedLockIsRenewed", 1).of(allKinds).proves(
		"A lock that was waited for is renewed like any other.",
		func(c *C) {
			c.whileLiving(func(ttl time.Duration) error {
				name := c.name("x")
				h := c.open().acquire(name, c.other...)
				p := c.open(locker.WithTTL(ttl)).queue(name, c.own...)
				time.Sleep(ttl) // longer in the queue than any lease of the waiter
				c.release(h)
				return c.lasts(p.held(soon), 2*ttl, c.other...)
			})
		}),
	newCase("Exclusion/Leased", 1).of(allKinds).proves(
		"A lock with a lease excludes others like any other while the lease lasts.",
		func(c *C) {
			h := c.holder(c.own.with(locker.WithLease(longTTL))...)
			b := c.open()
			p := b.queue(c.x, c.other...)
			b.taken(c.x)
			time.Sleep(100 * time.Millisecond)
			p.waits("a lease excludes")
			c.release(h)
			c.release(p.held(soon))
		}),
	newCase("Exclusion/Restart", 1).needing(stop|durable).apart().proves(
		"Two holders of one name never overlap while servers keep their data: a lock outlives a restart.",
		func(c *C) {
			h := c.open(locker.WithTTL(2 * longTTL)).acquire(c.x)
			w := c.watch(h)
			p := c.waiter()
			deadline := c.restartUnder(h)
			c.within(1500*time.Millisecond, p.finished)
			if p.finished() && p.err == nil {
				if left := time.Until(deadline); left > 0 {
					c.errorf("another got %q %v before the deadline of its holder", c.x, left)
				}
				w.before(p.stamp)
			}
			_ = h.Release(c.ctx)
			c.release(p.held(2 * soon))
		}),
}

// contend has clients Lockers with goroutines goroutines each take one name for d, or
// for longer on a machine that is slow.
func (c *C) contend(clients, goroutines int, d time.Duration, disturb bool) {
	c.tb.Helper()
	c.contest(d, c.openMany(clients), goroutines, func(cl *client, who int, rec *record) {
		c.turn(cl, c.x, who, rec, disturb)
	})
}

// turn takes the name once and holds it for a moment.
func (c *C) turn(cl *client, name string, who int, rec *record, disturb bool) {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	acquire := cl.Acquire
	if disturb {
		switch rand.IntN(4) {
		case 0:
			acquire = cl.TryAcquire
			time.Sleep(rand.N(2 * time.Millisecond))
		case 1:
			short, cancel := context.WithTimeout(ctx, rand.N(5*time.Millisecond))
			defer cancel()
			ctx = short
		case 2:
			defer time.AfterFunc(rand.N(5*time.Millisecond), cancel).Stop()
		}
	}
	h, err := acquire(ctx, name, c.own...)
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, locker.ErrNotAcquired) {
			c.must(err, "acquire %q", name)
		}
		return
	}
	begin := stamp()
	if rand.IntN(4) == 0 {
		time.Sleep(rand.N(300 * time.Microsecond))
	}
	rec.add(who, h, begin)
	if err := h.Release(c.ctx); !errors.Is(err, locker.ErrLost) {
		c.expect(err, nil, "release of %q", name)
	}
}

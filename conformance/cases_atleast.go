package conformance

import (
	"time"

	"github.com/seed80cd6120/locker"
)

var atLeastCases = []*testCase{
	newCase("AtLeast/Refused", 1).needing(noAtLeast).proves(
		"A backend that does not offer AtLeast refuses it with ErrUnsupported and takes nothing.",
		func(c *C) { c.unsupported(locker.AtLeast(time.Second)) }),
	newCase("AtLeast/StaysTaken", 1).needing(atLeast).of(allKinds).proves(
		"The name stays taken for that long from its acquisition on, also if released before, and not longer than a second more.",
		func(c *C) {
			d := c.b.TTL
			a, b := c.open(), c.open()
			a.free(c.name("warm"), soon)
			t := c.keepTaken(d)
			h := a.acquire(c.x, c.own.with(locker.AtLeast(d))...)
			t.acquired()
			c.release(h)
			c.expect(cause(h), locker.ErrReleased, "the cause after the release")
			if got, err := b.try(c.x, c.other...); err == nil {
				c.release(got)
				t.over(c.x)
			}
			next := b.begin(c.ctx, c.x, c.other...).held(d + soon)
			t.over(c.x)
			c.rises(h)
			c.rises(next)
			c.release(next)
			c.leftFree(c.x)
		}),
	newCase("AtLeast/Over", 7).needing(atLeast).proves(
		"A lock that was held for longer than it has to be taken is free when it is released.",
		func(c *C) {
			const d = 100 * time.Millisecond
			h := c.holder(locker.AtLeast(d))
			time.Sleep(2 * d)
			c.holds(h)
			c.release(c.open().takes(c.x))
		}),
	newCase("AtLeast/Permits", 1).needing(atLeast|permits).proves(
		"What stays taken after its release is what was taken, and not more.",
		func(c *C) {
			d := c.b.TTL
			a, b := c.open(), c.open()
			a.free(c.name("warm"), soon)
			begun := time.Now()
			c.release(a.acquire(c.x, locker.Permits(1, 2), locker.AtLeast(d)))
			c.release(b.takes(c.x, locker.Permits(1, 2)))
			all := b.begin(c.ctx, c.x, locker.Permits(2, 2)).held(d + soon)
			if took := time.Since(begun); took < d {
				c.errorf("taken for %v only, want %v", took, d)
			}
			c.release(all)
		}),
	newCase("AtLeast/PermitComesFree", 8).needing(atLeast|permits).proves(
		"A permit that stays taken goes on to who waits for it a second after its time at the latest, whatever was given back meanwhile.",
		func(c *C) {
			one, d := locker.Permits(1, 2), c.b.TTL+time.Second
			ls := c.openMany(4)
			for _, l := range ls {
				l.free(c.name("warm"), soon)
			}
			other := ls[0].acquire(c.x, one)
			t := c.keepTaken(d)
			h := ls[1].acquire(c.x, one, locker.AtLeast(d))
			t.acquired()
			waiting := []*pending{ls[2].queue(c.x, one), ls[3].queue(c.x, one)}
			c.release(h)
			c.settle()
			c.release(other)
			next := c.next(waiting)
			last := c.next(waiting)
			t.over(c.x)
			c.release(next, last)
		}),
	newCase("AtLeast/AfterClose", 15).needing(atLeast).proves(
		"The name stays taken for that long also if the Locker is closed, and not longer than a second more.",
		func(c *C) {
			held, d := c.name("held"), c.b.TTL
			a, b := c.open(), c.open()
			a.free(c.name("warm"), soon)
			t := c.keepTaken(d)
			a.acquire(held, locker.AtLeast(d))
			c.release(a.acquire(c.x, locker.AtLeast(d)))
			t.acquired()
			a.close()
			for _, p := range []*pending{b.begin(c.ctx, c.x), b.begin(c.ctx, held)} {
				h := p.held(d + soon)
				t.over(p.name)
				defer c.release(h)
			}
		}),
	newCase("AtLeast/DeadProcess", 4).needing(atLeast|process).proves(
		"The name stays taken for that long also if the process that released it lives no longer, and not longer than a second more.",
		func(c *C) {
			d := c.b.TTL + time.Second
			ch := c.spawn(c.b.TTL)
			t := c.keepTaken(d)
			ch.ask(order{Do: "acquire", Name: c.x, AtLeast: d}).must("acquire")
			t.acquired()
			if r := ch.ask(order{Do: "release", Name: c.x}).answer(); r.Err != "" {
				if time.Since(t.begun) < c.b.TTL/2 { // after that it may be lost by a child that stood still
					c.errorf("release: %s", r.Err)
				} else {
					c.unlessLate(t.begun, 20*time.Millisecond, "release: %s", r.Err)
				}
				return
			}
			ch.kill()
			h := c.open().begin(c.ctx, c.x).held(d + soon)
			t.over(c.x)
			c.release(h)
		}),
	newCase("AtLeast/Killed", 4).needing(atLeast|process).proves(
		"A holder that dies frees the name within TTL plus one second, however long it wanted it taken.",
		func(c *C) {
			ch := c.spawn(c.b.TTL)
			ch.ask(order{Do: "acquire", Name: c.x, AtLeast: time.Minute}).must("acquire")
			p := c.waiter()
			c.release(p.freedBy(ch.kill()))
		}),
}

// takenFor is the time for which a name has to stay taken: d from a moment between begun and granted.
type takenFor struct {
	c              *C
	d              time.Duration
	begun, granted time.Time
}

// keepTaken says that what is acquired now has to stay taken for d.
func (c *C) keepTaken(d time.Duration) *takenFor { return &takenFor{c: c, d: d, begun: time.Now()} }

// acquired says that it has been acquired.
func (t *takenFor) acquired() { t.granted = time.Now() }

// over fails the case unless now is the time for the name to be free again: not before, and at most
// a second later.
func (t *takenFor) over(name string) {
	c := t.c
	c.tb.Helper()
	if took := time.Since(t.begun); took < t.d {
		c.errorf("%q was taken for %v only, want %v", name, took, t.d)
	}
	if took, limit := time.Since(t.granted), t.d+time.Second+c.late.Slack(t.begun); took > limit {
		c.lateBy(took-limit, "%q was taken for %v, want %v and a second more at most", name, took, t.d)
	}
}

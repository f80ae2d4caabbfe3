package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/seed80cd6120/locker"
)

var outageCases = []*testCase{
	newCase("Outage/WaitersGoOn", 14).needing(stop).apart().proves(
		"While servers are away waiters wait; when servers return they go on by themselves.",
		func(c *C) {
			h := c.open(locker.WithTTL(c.b.TTL)).acquire(c.x)
			p := c.waiter()
			c.whileAway(func() {
				time.Sleep(300 * time.Millisecond)
				switch {
				case !p.finished() || p.err != nil:
					p.waits("the server is away")
				case time.Now().After(h.Deadline()): // it was lost before, as servers were late, and the grant was on its way
					c.tooSlow()
				default:
					c.errorf("granted while the server was away")
				}
			})
			_ = h.Release(c.ctx)
			c.release(p.held(c.b.TTL + 2*soon))
		}),
	newCase("Outage/AcquireMeanwhile", 14).needing(stop).apart().proves(
		"An Acquire that begins while servers are away waits and goes on when they return.",
		func(c *C) {
			l := c.open()
			l.free(c.name("warm"), soon)
			var p *pending
			c.whileAway(func() {
				p = l.begin(c.ctx, c.x)
				time.Sleep(300 * time.Millisecond)
				p.waits("the server is away")
			})
			c.release(p.held(2 * soon))
			c.leftFree(c.x)
		}),
	newCase("Outage/HolderKeeps", 14).needing(stop|durable).apart().proves(
		"Holders keep the lock until its deadline: one that is renewed again in time is not lost.",
		func(c *C) {
			l := c.open(locker.WithTTL(2 * longTTL)) // three JVMs take their time
			h := l.acquire(c.x)
			c.restartUnder(h)
			c.alive(h, "before its deadline")
			time.Sleep(time.Second)
			c.alive(h, "although it was renewed after the restart")
			_ = h.Release(c.ctx)
			l.free(c.x, soon)
		}),
	newCase("Outage/WorksAfterwards", 14).needing(stop).apart().proves(
		"When servers return a Locker that lost its locks works as before.",
		func(c *C) {
			c.whileLiving(func(ttl time.Duration) error {
				name := c.name("x")
				l := c.open(locker.WithTTL(ttl))
				w := c.watch(l.acquire(name))
				c.whileAway(func() { w.lostWithin(ttl, "the server went away") })
				l.free(c.name("y"), 2*soon)
				l.free(name, 2*soon)
				return c.keeps(l, name, 2*ttl)
			})
		}),
	newCase("Outage/FrozenWaiter", 14).needing(link).of(allKinds).proves(
		"A waiter to whom the network was silent goes on by itself when it speaks again.",
		func(c *C) { c.waiterOutage(func(l Link) { l.Freeze() }) }),
	newCase("Outage/CutWaiter", 14).needing(link).of(allKinds).proves(
		"A waiter whose connections were cut goes on by itself when they can be made again.",
		func(c *C) { c.waiterOutage(func(l Link) { l.Cut() }) }),
	newCase("Outage/MissedWakeUp", 8).needing(link).of(allKinds).proves(
		"A slow fallback covers a lost message: a waiter that was cut off when the lock was released gets it.",
		func(c *C) {
			h := c.holder(c.other...)
			a := c.openLink()
			p := a.queue(c.x, c.own...)
			a.link.Freeze()
			c.release(h)
			time.Sleep(200 * time.Millisecond)
			a.link.Heal()
			c.release(p.held(longTTL + soon))
		}),
	newCase("Outage/CutAgainAndAgain", 14).needing(link).proves(
		"A waiter survives any number of cuts.",
		func(c *C) {
			h := c.holder()
			a := c.openLink()
			p := a.queue(c.x)
			a.cut(5, 30*time.Millisecond, 50*time.Millisecond)
			p.waits("its connection was cut")
			c.release(h)
			c.release(p.held(longTTL + soon))
			c.leftFree(c.x)
		}),
	newCase("Outage/HolderSurvivesCut", 14).needing(link).of(allKinds).proves(
		"Holders keep the lock until its deadline: a connection that is cut and made again in time loses nothing.",
		func(c *C) {
			a, b := c.openLink(), c.open()
			h := a.acquire(c.x, c.own...)
			a.cut(3, 50*time.Millisecond, 50*time.Millisecond)
			c.alive(h, "long before its deadline")
			b.taken(c.x)
			c.release(h)
			b.free(c.x, soon)
		}),
	newCase("Outage/LostAndGoesOn", 14).needing(link).of(allKinds).proves(
		"A Locker that was cut off and lost its locks works as before when the network is back.",
		func(c *C) {
			c.whileLiving(func(ttl time.Duration) error {
				name := c.name("x")
				a, b := c.openLink(locker.WithTTL(ttl)), c.open()
				w := c.watch(a.acquire(name, c.own...))
				a.link.Freeze()
				c.release(b.acquire(name, c.other...))
				w.lostWithin(soon, "it was cut off")
				a.link.Heal()
				// Both may fail on a machine that is late by a part of the TTL: a release is not tried for longer.
				if err := c.keeps(a, c.name("y"), 0); err != nil {
					return err
				}
				return c.keeps(a, name, 2*ttl)
			})
			c.nothingLeft(cleanupBound)
		}),
}

// cut cuts the client's connections n times, for a while each.
func (cl *client) cut(n int, away, back time.Duration) {
	for range n {
		cl.link.Cut()
		time.Sleep(away)
		cl.link.Heal()
		time.Sleep(back)
	}
}

// keeps takes a lock and looks whether it is held after d.
func (c *C) keeps(l *client, name string, d time.Duration) error {
	h := l.acquire(name)
	time.Sleep(d)
	if h.Context().Err() != nil {
		return cause(h)
	}
	return c.giveBack(h)
}

// whileAway runs do while the server is away.
func (c *C) whileAway(do func()) {
	c.tb.Helper()
	c.wasAway.Store(true)
	c.must(c.h.Stop(c.ctx), "Stop")
	// The server has to come back for the cases that follow, even if do ends this
	// one.
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), time.Minute)
		defer cancel()
		c.must(c.h.Start(ctx), "Start")
	}()
	do()
}

// restart takes the server away and brings it back.
func (c *C) restart() {
	c.tb.Helper()
	c.whileAway(func() {})
}

// restartUnder restarts the server and fails the case unless the name that h holds is taken then. It returns the deadline that
// h had before; if that is near the case ends without a verdict.
func (c *C) restartUnder(h Holding) (deadline time.Time) {
	c.tb.Helper()
	deadline = h.Deadline()
	c.restart()
	if time.Until(deadline) < longTTL/4 {
		c.giveUp()
	}
	c.open().taken(h.Name())
	return deadline
}

func (c *C) waiterOutage(breakIt func(Link)) {
	h := c.holder(c.other...)
	a := c.openLink(locker.WithTTL(c.b.TTL))
	p := a.queue(c.x, c.own...)
	breakIt(a.link)
	time.Sleep(2*c.b.TTL + c.b.TTL/2) // its place in the queue may be gone
	p.waits("the network is broken")
	a.link.Heal()
	c.settle()
	c.release(h)
	got := p.held(longTTL + soon)
	granted := time.Now()
	if err := got.Release(c.ctx); !c.gaveUp(err, granted) && !(errors.Is(err, locker.ErrLost) && c.lostByRight(got)) {
		c.expect(err, nil, "release of a lock that was just granted")
	}
	// A network that has just come back may take longer than a release waits for its answer. Then
	// it goes on in the background.
	c.open().free(c.x, cleanupBound+c.late.Slack(granted))
}

package conformance

import (
	"context"
	"time"

	"github.com/seed80cd6120/locker"
)

var outageCases = []*testCase{
	{
		name: "Outage/WaitersGoOn", promise: 14, needs: stop, alone: true,
		says: "While servers are away waiters wait; when servers return they go on by themselves.",
		run: func(c *C) {
			name := c.name("x")
			a, b := c.open(locker.WithTTL(c.b.TTL)), c.open()
			h := a.acquire(name)
			p := b.queue(name)
			c.whileAway(func() {
				time.Sleep(300 * time.Millisecond)
				if p.finished() && p.err == nil {
					c.errorf("granted while the server was away")
				} else if p.finished() {
					c.errorf("a waiter did not wait for the server: %v", p.err)
				}
			})
			_ = h.Release(c.ctx)
			c.release(p.held(c.b.TTL + 2*soon))
		},
	},
	{
		name: "Outage/AcquireMeanwhile", promise: 14, needs: stop, alone: true,
		says: "An Acquire that begins while servers are away waits and goes on when they return.",
		run: func(c *C) {
			l := c.open()
			l.free(c.name("warm"), soon)
			var p *pending
			c.whileAway(func() {
				p = l.begin(c.ctx, c.name("x"))
				time.Sleep(300 * time.Millisecond)
				if p.finished() {
					c.errorf("did not wait for the server: %v", p.err)
				}
			})
			c.release(p.held(2 * soon))
		},
	},
	{
		name: "Outage/HolderKeeps", promise: 14, needs: stop | durable, alone: true,
		says: "Holders keep the lock until its deadline: one that is renewed again in time is not lost.",
		run: func(c *C) {
			name := c.name("x")
			l := c.open()
			h := l.acquire(name)
			deadline := h.Deadline()
			c.restart()
			if time.Now().After(deadline.Add(-longTTL / 4)) {
				c.tooSlow()
				return
			}
			c.alive(h, "before its deadline")
			c.open().taken(name)
			time.Sleep(time.Second)
			c.alive(h, "although it was renewed after the restart")
			_ = h.Release(c.ctx)
			l.free(name, soon)
		},
	},
	{
		name: "Outage/WorksAfterwards", promise: 14, needs: stop, alone: true,
		says: "When servers return a Locker that lost its locks works as before.",
		run: func(c *C) {
			c.whileLiving(func(ttl time.Duration) error {
				name := c.name("x")
				l := c.open(locker.WithTTL(ttl))
				w := c.watch(l.acquire(name))
				c.whileAway(func() { w.lostWithin(ttl, "the server went away") })
				l.free(c.name("y"), 2*soon)
				l.free(name, 2*soon)
				return c.keeps(l, name, 2*ttl)
			})
		},
	},
	{
		name: "Outage/FrozenWaiter", promise: 14, needs: link, kinds: allKinds,
		says: "A waiter to whom the network was silent goes on by itself when it speaks again.",
		run:  func(c *C) { c.waiterOutage(func(l Link) { l.Freeze() }) },
	},
	{
		name: "Outage/CutWaiter", promise: 14, needs: link, kinds: allKinds,
		says: "A waiter whose connections were cut goes on by itself when they can be made again.",
		run:  func(c *C) { c.waiterOutage(func(l Link) { l.Cut() }) },
	},
	{
		name: "Outage/MissedWakeUp", promise: 8, needs: link, kinds: allKinds,
		says: "A slow fallback covers a lost message: a waiter that was cut off when the lock was released gets it.",
		run: func(c *C) {
			name := c.name("x")
			h := c.open().acquire(name, c.other...)
			a := c.openLink()
			p := a.queue(name, c.own...)
			a.link.Freeze()
			c.release(h)
			time.Sleep(200 * time.Millisecond)
			a.link.Heal()
			c.release(p.held(longTTL + soon))
		},
	},
	{
		name: "Outage/CutAgainAndAgain", promise: 14, needs: link,
		says: "A waiter survives any number of cuts.",
		run: func(c *C) {
			name := c.name("x")
			h := c.open().acquire(name)
			a := c.openLink()
			p := a.queue(name)
			for range 5 {
				a.link.Cut()
				time.Sleep(30 * time.Millisecond)
				a.link.Heal()
				time.Sleep(50 * time.Millisecond)
			}
			if p.finished() {
				c.fatalf("did not wait: %v", p.err)
			}
			c.release(h)
			c.release(p.held(longTTL + soon))
			c.exorcised(name)
		},
	},
	{
		name: "Outage/HolderSurvivesCut", promise: 14, needs: link, kinds: allKinds,
		says: "Holders keep the lock until its deadline: a connection that is cut and made again in time loses nothing.",
		run: func(c *C) {
			a, b := c.openLink(), c.open()
			name := c.name("x")
			h := a.acquire(name, c.own...)
			for range 3 {
				a.link.Cut()
				time.Sleep(50 * time.Millisecond)
				a.link.Heal()
				time.Sleep(50 * time.Millisecond)
			}
			c.alive(h, "long before its deadline")
			b.taken(name)
			if err := h.Release(c.ctx); err != nil {
				c.errorf("release after a cut: %v", err)
			}
			b.free(name, soon)
		},
	},
	{
		name: "Outage/LostAndGoesOn", promise: 14, needs: link, kinds: allKinds,
		says: "A Locker that was cut off and lost its locks works as before when the network is back.",
		run: func(c *C) {
			c.whileLiving(func(ttl time.Duration) error {
				name := c.name("x")
				a, b := c.openLink(locker.WithTTL(ttl)), c.open()
				w := c.watch(a.acquire(name, c.own...))
				a.link.Freeze()
				c.release(b.acquire(name, c.other...))
				w.lostWithin(soon, "it was cut off")
				a.link.Heal()
				a.free(c.name("y"), 2*soon)
				return c.keeps(a, name, 2*ttl)
			})
			c.nothingLeft(ghostBound)
		},
	},
}

// keeps takes a lock and looks whether it is held after d.
func (c *C) keeps(l *client, name string, d time.Duration) error {
	h := l.acquire(name)
	time.Sleep(d)
	if h.Context().Err() != nil {
		return context.Cause(h.Context())
	}
	c.release(h)
	return nil
}

// whileAway runs do while the server is away.
func (c *C) whileAway(do func()) {
	c.tb.Helper()
	if err := c.h.Stop(c.ctx); err != nil {
		c.fatalf("Stop: %v", err)
	}
	// The server has to come back for the cases that follow, even if do ends this
	// one.
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), time.Minute)
		defer cancel()
		if err := c.h.Start(ctx); err != nil {
			c.fatalf("Start: %v", err)
		}
	}()
	do()
}

func (c *C) waiterOutage(breakIt func(Link)) {
	name := c.name("x")
	h := c.open().acquire(name, c.other...)
	a := c.openLink(locker.WithTTL(c.b.TTL))
	p := a.queue(name, c.own...)
	breakIt(a.link)
	time.Sleep(2*c.b.TTL + c.b.TTL/2) // its place in the queue may be gone
	if p.finished() {
		c.fatalf("did not wait until its ctx ended: %v", p.err)
	}
	a.link.Heal()
	c.settle()
	c.release(h)
	got := p.held(longTTL + soon)
	granted := time.Now()
	if err := got.Release(c.ctx); err != nil && c.late.Worst(granted.Add(-time.Second)) <= c.b.TTL/6 {
		c.errorf("granted, and then not to be released: %v", err)
	}
}

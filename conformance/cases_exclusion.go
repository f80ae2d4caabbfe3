package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/seed80cd6120/locker"
)

var exclusionCases = []*testCase{
	{
		name: "Exclusion/Goroutines", promise: 1,
		says: "Two holders of one name never overlap: goroutines of one Locker.",
		run:  func(c *C) { c.contend(1, 16, 600*time.Millisecond, false) },
	},
	{
		name: "Exclusion/Lockers", promise: 1, kinds: aloneKinds,
		says: "Two holders of one name never overlap: separate Lockers.",
		run:  func(c *C) { c.contend(8, 1, 800*time.Millisecond, false) },
	},
	{
		name: "Exclusion/Disturbed", promise: 1, kinds: aloneKinds,
		says: "Two holders of one name never overlap, also when others try, give up and time out at random moments.",
		run:  func(c *C) { c.contend(4, 4, 800*time.Millisecond, true) },
	},
	{
		name: "Exclusion/Processes", promise: 1, needs: process,
		says: "Two holders of one name never overlap: separate processes.",
		run:  exclusionProcesses,
	},
	{
		name: "Exclusion/TryOfHeld", promise: 1,
		says: "TryAcquire takes the name if it is free and returns ErrNotAcquired if not.",
		run: func(c *C) {
			name := c.name("x")
			a, b := c.open(), c.open()
			h := a.acquire(name)
			for range 5 {
				a.taken(name)
				b.taken(name)
			}
			c.alive(h, "while others tried to take it")
			c.release(h)
			b.free(name, soon)
			a.free(name, soon)
		},
	},
	{
		name: "Exclusion/AcquireOfHeld", promise: 1,
		says: "Acquire waits until the name is free.",
		run: func(c *C) {
			name := c.name("x")
			a, b := c.open(), c.open()
			h := a.acquire(name)
			p := b.queue(name)
			time.Sleep(300 * time.Millisecond)
			if p.finished() {
				c.fatalf("Acquire of a held name returned: %v", p.err)
			}
			var rec record
			begin := stamp()
			rec.add(1, h, begin)
			c.release(h)
			second := p.held(soon)
			rec.add(2, second, p.stamp)
			rec.check(c, name)
			c.release(second)
		},
	},
	{
		name: "Exclusion/RenewedWhileHeld", promise: 1, kinds: allKinds,
		says: "A live holder renews by itself: nobody else gets the name however long it is held.",
		run: func(c *C) {
			c.whileLiving(func(ttl time.Duration) error {
				name := c.name("x")
				a, b := c.open(locker.WithTTL(ttl)), c.open()
				h := a.acquire(name, c.own...)
				for end := time.Now().Add(3*ttl + ttl/2); time.Now().Before(end) && c.ctx.Err() == nil; {
					if other, err := b.try(name, c.other...); err == nil {
						c.release(other)
						return fmt.Errorf("another got %q while it was held", name)
					}
					time.Sleep(ttl / 20)
				}
				if h.Context().Err() != nil {
					return context.Cause(h.Context())
				}
				c.release(h)
				return nil
			})
		},
	},
	{
		name: "Exclusion/WaitedLockIsRenewed", promise: 1, kinds: allKinds,
		says: "A lock that was waited for is renewed like any other.",
		run: func(c *C) {
			c.whileLiving(func(ttl time.Duration) error {
				name := c.name("x")
				a, b, third := c.open(), c.open(locker.WithTTL(ttl)), c.open()
				h := a.acquire(name, c.other...)
				p := b.queue(name, c.own...)
				time.Sleep(ttl) // longer in the queue than any lease of the waiter
				c.release(h)
				second := p.held(soon)
				time.Sleep(2 * ttl)
				if other, err := third.try(name, c.other...); err == nil {
					c.release(other)
					return fmt.Errorf("another got %q while it was held", name)
				}
				if second.Context().Err() != nil {
					return context.Cause(second.Context())
				}
				c.release(second)
				return nil
			})
		},
	},
	{
		name: "Exclusion/Leased", promise: 1, kinds: allKinds,
		says: "A lock with a lease excludes others like any other while the lease lasts.",
		run: func(c *C) {
			name := c.name("x")
			a, b := c.open(), c.open()
			h := a.acquire(name, c.own.with(locker.WithLease(longTTL))...)
			p := b.queue(name, c.other...)
			b.taken(name)
			time.Sleep(100 * time.Millisecond)
			if p.finished() {
				c.errorf("a leased lock did not exclude: %v", p.err)
			}
			c.release(h)
			c.release(p.held(soon))
		},
	},
	{
		name: "Exclusion/Restart", promise: 1, needs: stop | durable, alone: true,
		says: "Two holders of one name never overlap while servers keep their data: a lock outlives a restart.",
		run: func(c *C) {
			name := c.name("x")
			a, b := c.open(), c.open()
			h := a.acquire(name)
			w := c.watch(h)
			p := b.queue(name)
			deadline := h.Deadline()
			c.restart()
			c.within(1500*time.Millisecond, p.finished)
			if p.finished() && p.err == nil {
				if left := time.Until(deadline); left > 0 {
					c.errorf("another got %q %v before the deadline of its holder", name, left)
				}
				w.before(p.stamp)
			}
			_ = h.Release(c.ctx)
			c.release(p.held(2 * soon))
		},
	},
}

// whileLiving looks whether locks with a TTL are kept by a holder that lives. On a
// machine that runs goroutines late by a good part of the TTL they may be lost by
// right; then it looks again with a longer one.
func (c *C) whileLiving(broken func(ttl time.Duration) error) {
	c.tb.Helper()
	for ttl := c.b.TTL; ttl <= 8*c.b.TTL; ttl *= 2 {
		start := time.Now()
		c.mu.Lock()
		before := len(c.clients)
		c.mu.Unlock()
		err := broken(ttl)
		if err == nil {
			return
		}
		if late := c.late.Worst(start.Add(-time.Second)); late <= ttl/32 || c.ctx.Err() != nil {
			c.fatalf("TTL %v, this machine late by at most %v: %v", ttl, late, err)
		}
		c.mu.Lock()
		opened := c.clients[before:]
		c.mu.Unlock()
		shut(opened)
	}
	c.tooSlow()
}

// tooSlow notes that the case could not come to a verdict.
func (c *C) tooSlow() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.undecided = true
}

// restart takes the server away and brings it back.
func (c *C) restart() {
	c.tb.Helper()
	c.whileAway(func() {})
}

// enough is how many acquisitions are needed to say something about exclusion.
const enough = 10

// contend has clients Lockers with goroutines goroutines each take one name for d, or
// for longer on a machine that is slow.
func (c *C) contend(clients, goroutines int, d time.Duration, disturb bool) {
	c.tb.Helper()
	name := c.name("x")
	var rec record
	var wg sync.WaitGroup
	end := time.Now().Add(d)
	for i := range clients {
		cl := c.open()
		for j := range goroutines {
			wg.Go(func() {
				for (time.Now().Before(end) || rec.count() < enough) && c.ctx.Err() == nil {
					c.turn(cl, name, i*goroutines+j, &rec, disturb)
				}
			})
		}
	}
	wg.Wait()
	rec.check(c, name)
	cl := c.open()
	cl.free(name, soon)
}

// turn takes the name once and holds it for a moment.
func (c *C) turn(cl *client, name string, who int, rec *record, disturb bool) {
	ctx := c.ctx
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
			short, cancel := context.WithCancel(ctx)
			defer time.AfterFunc(rand.N(5*time.Millisecond), cancel).Stop()
			defer cancel()
			ctx = short
		}
	}
	h, err := acquire(ctx, name, c.own...)
	switch {
	case err == nil:
	case ctx.Err() != nil, errors.Is(err, locker.ErrNotAcquired):
		return
	default:
		c.fatalf("acquire %q: %v", name, err)
	}
	begin := stamp()
	if rand.IntN(4) == 0 {
		time.Sleep(rand.N(300 * time.Microsecond))
	}
	rec.add(who, h, begin)
	if err := h.Release(c.ctx); err != nil && !errors.Is(err, locker.ErrLost) {
		c.errorf("release of %q: %v", name, err)
	}
}

func exclusionProcesses(c *C) {
	name := c.name("x")
	children := []*child{c.spawn(longTTL), c.spawn(longTTL)}
	own := c.open()
	var rec record
	for d := 700 * time.Millisecond; ; d *= 4 {
		var loops []*asked
		for _, ch := range children {
			loops = append(loops, ch.ask(order{Do: "loop", Name: name, Timeout: d, Hold: 200 * time.Microsecond}))
		}
		for end := time.Now().Add(d); time.Now().Before(end) && c.ctx.Err() == nil; {
			c.turn(own, name, 0, &rec, false)
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
	rec.spans = slices.Clip(rec.spans)
	rec.check(c, name)
}

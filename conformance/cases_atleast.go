package conformance

import (
	"errors"
	"time"

	"github.com/seed80cd6120/locker"
)

var atLeastCases = []*testCase{
	{
		name: "AtLeast/Refused", promise: 1, needs: noAtLeast,
		says: "A backend that does not offer AtLeast refuses it with ErrUnsupported and takes nothing.",
		run:  func(c *C) { c.refused(locker.AtLeast(time.Second)) },
	},
	{
		name: "AtLeast/StaysTaken", promise: 1, needs: atLeast, kinds: allKinds,
		says: "The name stays taken for that long from its acquisition on, also if released before, and not longer than a second more.",
		run: func(c *C) {
			name, d := c.name("x"), c.b.TTL
			b := c.open()
			begun := time.Now()
			h := c.open().acquire(name, c.own.with(locker.AtLeast(d))...)
			acquired := time.Now()
			c.release(h)
			if !errors.Is(cause(h), locker.ErrReleased) {
				c.errorf("released, and the cause is %v", cause(h))
			}
			if got, err := b.try(name, c.other...); err == nil && time.Since(begun) < d {
				c.release(got)
				c.errorf("taken again after %v", time.Since(begun))
			}
			next := b.begin(c.ctx, name, c.other...).held(d + soon)
			c.takenFor(name, d, begun, acquired)
			if c.b.Fenced && next.Token() <= h.Token() {
				c.errorf("token %d after %d", next.Token(), h.Token())
			}
			c.release(next)
			c.exorcised(name)
		},
	},
	{
		name: "AtLeast/Over", promise: 7, needs: atLeast,
		says: "A lock that was held for longer than it has to be taken is free when it is released.",
		run: func(c *C) {
			name, d := c.name("x"), 100*time.Millisecond
			h := c.open().acquire(name, locker.AtLeast(d))
			time.Sleep(2 * d)
			c.holds(h)
			c.open().free(name, soon)
		},
	},
	{
		name: "AtLeast/Permits", promise: 1, needs: atLeast | permits,
		says: "What stays taken after its release is what was taken, and not more.",
		run: func(c *C) {
			name, d := c.name("x"), c.b.TTL
			b := c.open()
			begun := time.Now()
			c.release(c.open().acquire(name, locker.Permits(1, 2), locker.AtLeast(d)))
			one, err := b.try(name, locker.Permits(1, 2))
			if err != nil {
				c.errorf("the other permit: %v", err)
			} else {
				c.release(one)
			}
			all := b.begin(c.ctx, name, locker.Permits(2, 2)).held(d + soon)
			if took := time.Since(begun); took < d {
				c.errorf("taken for %v only, want %v", took, d)
			}
			c.release(all)
		},
	},
	{
		name: "AtLeast/AfterClose", promise: 15, needs: atLeast,
		says: "The name stays taken for that long also if the Locker is closed, and not longer than a second more.",
		run: func(c *C) {
			name, held, d := c.name("x"), c.name("held"), c.b.TTL
			a, b := c.open(), c.open()
			begun := time.Now()
			a.acquire(held, locker.AtLeast(d))
			c.release(a.acquire(name, locker.AtLeast(d)))
			acquired := time.Now()
			if err := a.Close(c.ctx); err != nil {
				c.errorf("close: %v", err)
			}
			waiting := []*pending{b.begin(c.ctx, name), b.begin(c.ctx, held)}
			for _, p := range waiting {
				h := p.held(d + soon)
				c.takenFor(p.name, d, begun, acquired)
				defer c.release(h)
			}
		},
	},
	{
		name: "AtLeast/DeadProcess", promise: 4, needs: atLeast | process,
		says: "The name stays taken for that long also if the process that released it lives no longer, and not longer than a second more.",
		run: func(c *C) {
			name, d := c.name("x"), c.b.TTL+time.Second
			ch := c.spawn(c.b.TTL)
			begun := time.Now()
			ch.ask(order{Do: "acquire", Name: name, AtLeast: d}).must("acquire")
			acquired := time.Now()
			ch.ask(order{Do: "release", Name: name}).must("release")
			ch.kill()
			h := c.open().begin(c.ctx, name).held(d + soon)
			c.takenFor(name, d, begun, acquired)
			c.release(h)
		},
	},
	{
		name: "AtLeast/Killed", promise: 4, needs: atLeast | process,
		says: "A holder that dies frees the name within TTL plus one second, however long it wanted it taken.",
		run: func(c *C) {
			name := c.name("x")
			ch := c.spawn(c.b.TTL)
			ch.ask(order{Do: "acquire", Name: name, AtLeast: time.Minute}).must("acquire")
			p := c.open().queue(name)
			died := time.Now()
			ch.kill()
			c.release(p.freedBy(died))
		},
	},
}

// takenFor fails the case unless now is the time for a name to be free again that was acquired
// between the two moments and had to stay taken for d.
func (c *C) takenFor(name string, d time.Duration, begun, acquired time.Time) {
	c.tb.Helper()
	if took := time.Since(begun); took < d {
		c.errorf("%q was taken for %v only, want %v", name, took, d)
	}
	if took, limit := time.Since(acquired), d+time.Second+c.late.Slack(begun); took > limit {
		c.errorf("%q was taken for %v, want %v and a second more at most", name, took, d)
	}
}

package conformance

import (
	"fmt"
	"time"

	"github.com/seed80cd6120/locker"
)

// afterDeath is the time within which the lock of a dead holder has to be free.
func (c *C) afterDeath(since time.Time) time.Duration {
	return c.b.TTL + time.Second + c.late.Slack(since)
}

// freedBy fails the case unless the waiting Acquire got the lock in time.
func (p *pending) freedBy(since time.Time) Holding {
	c := p.c
	c.tb.Helper()
	h := p.held(c.b.TTL + soon)
	if took, limit := time.Since(since), c.afterDeath(since); took > limit {
		c.errorf("%q was free %v after its holder had died, want at most %v (TTL %v plus 1s, plus this machine's delays)",
			p.name, took.Round(time.Millisecond), limit.Round(time.Millisecond), c.b.TTL)
	}
	return h
}

var deathCases = []*testCase{
	{
		name: "Death/KilledHolder", promise: 4, needs: process, kinds: allKinds,
		says: "A holder that is killed frees its locks within TTL plus one second; waiters go on.",
		run: func(c *C) {
			name := c.name("x")
			ch := c.spawn(c.b.TTL)
			first := ch.acquire(name)
			p := c.open().queue(name, c.other...)
			time.Sleep(c.b.TTL / 2)
			died := time.Now()
			ch.kill()
			h := p.freedBy(died)
			if c.b.Fenced && h.Token() <= first.Token {
				c.errorf("token %d after %d of the dead holder", h.Token(), first.Token)
			}
			c.release(h)
		},
	},
	{
		name: "Death/KilledHolderOfMany", promise: 4, needs: process,
		says: "A holder that is killed frees its locks within TTL plus one second: all of them.",
		run: func(c *C) {
			ch := c.spawn(c.b.TTL)
			own := c.open()
			var names []string
			for i := range 12 {
				names = append(names, c.name(fmt.Sprint(i)))
				ch.acquire(names[i])
			}
			var waiting []*pending
			for _, name := range names {
				waiting = append(waiting, own.begin(c.ctx, name))
			}
			c.settle()
			died := time.Now()
			ch.kill()
			var freed []Holding
			for _, p := range waiting {
				freed = append(freed, p.freedBy(died)) // to release them takes time, too
			}
			for _, h := range freed {
				c.release(h)
			}
		},
	},
	{
		name: "Death/KilledWaiter", promise: 4, needs: process, kinds: allKinds,
		says: "A waiter that is killed is passed over within TTL plus one second.",
		run: func(c *C) {
			name := c.name("x")
			holder := c.open()
			h := holder.acquire(name, c.other...)
			ch := c.spawn(c.b.TTL)
			ch.ask(order{Do: "acquire", Name: name})
			c.settle()
			p := c.open().queue(name, c.other...)
			died := time.Now()
			ch.kill()
			c.release(h)
			c.release(p.freedBy(died))
		},
	},
	{
		name: "Death/KilledAtRandom", promise: 4, needs: process, kinds: allKinds,
		says: "A process that is killed at any moment of taking and giving back frees its locks within TTL plus one second.",
		run: func(c *C) {
			name := c.name("x")
			own := c.open()
			for i := range 3 {
				ch := c.spawn(c.b.TTL)
				ch.ask(order{Do: "loop", Name: name, Timeout: time.Minute, Hold: 3 * time.Millisecond})
				time.Sleep(time.Duration(50+37*i) * time.Millisecond)
				died := time.Now()
				ch.kill()
				p := own.begin(c.ctx, name)
				c.release(p.freedBy(died))
			}
		},
	},
	{
		name: "Death/Silence", promise: 4, needs: link, kinds: allKinds,
		says: "A holder that is cut off for good frees its locks within TTL plus one second, like one that died.",
		run: func(c *C) {
			name := c.name("x")
			a := c.openLink(locker.WithTTL(c.b.TTL))
			a.acquire(name, c.own...)
			p := c.open().queue(name, c.other...)
			time.Sleep(c.b.TTL / 2)
			died := time.Now()
			a.link.Freeze()
			c.release(p.freedBy(died))
		},
	},
	{
		name: "Death/Lease", promise: 4, kinds: allKinds,
		says: "A lock with a lease that nobody releases is free when the lease is over, at the latest a second after.",
		run: func(c *C) {
			name := c.name("x")
			c.open().acquire(name, c.own.with(locker.WithLease(c.b.TTL))...)
			granted := time.Now()
			c.release(c.open().begin(c.ctx, name, c.other...).freedBy(granted))
		},
	},
	{
		name: "Death/TryAfterLease", promise: 4, kinds: allKinds,
		says: "TryAcquire takes a name whose holder's lease is over, at the latest a second after.",
		run: func(c *C) {
			name := c.name("x")
			c.open().acquire(name, c.own.with(locker.WithLease(c.b.TTL))...)
			granted := time.Now()
			b := c.open()
			for {
				asked := time.Now()
				h, err := b.try(name, c.other...)
				if err == nil {
					c.release(h)
					return
				}
				if asked.Sub(granted) > c.afterDeath(granted) {
					c.fatalf("not free %v after it was granted for %v: %v", asked.Sub(granted), c.b.TTL, err)
				}
				time.Sleep(20 * time.Millisecond)
			}
		},
	},
}

package conformance

import (
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
		c.lateBy(took-limit, "%q was free %v after its holder had died, want at most %v (TTL %v plus 1s, plus this machine's delays)",
			p.name, took.Round(time.Millisecond), limit.Round(time.Millisecond), c.b.TTL)
	}
	return h
}

var deathCases = []*testCase{
	newCase("Death/KilledHolder", 4).needing(process).of(allKinds).proves(
		"A holder that is killed frees its locks within TTL plus one second; waiters go on.",
		func(c *C) {
			ch := c.spawn(c.b.TTL)
			c.tokensRise(ch.acquire(c.x).Token)
			p := c.waiter(c.other...)
			time.Sleep(c.b.TTL / 2)
			c.release(c.rises(p.freedBy(ch.kill())))
		}),
	newCase("Death/KilledHolderOfMany", 4).needing(process).proves(
		"A holder that is killed frees its locks within TTL plus one second: all of them.",
		func(c *C) {
			ch, own := c.spawn(c.b.TTL), c.open()
			names := c.names(12)
			for _, name := range names {
				ch.acquire(name)
			}
			var waiting []*pending
			for _, name := range names {
				waiting = append(waiting, own.begin(c.ctx, name))
			}
			c.settle()
			died := ch.kill()
			var freed []Holding
			for _, p := range waiting {
				freed = append(freed, p.freedBy(died)) // to release them takes time, too
			}
			c.release(freed...)
		}),
	newCase("Death/KilledWaiter", 4).needing(process).of(allKinds).proves(
		"A waiter that is killed is passed over within TTL plus one second.",
		func(c *C) {
			h := c.holder(c.other...)
			ch := c.spawn(c.b.TTL)
			ch.ask(order{Do: "acquire", Name: c.x})
			c.settle()
			p := c.waiter(c.other...)
			ch.kill()
			c.release(h)
			c.release(p.freedBy(time.Now()))
		}),
	newCase("Death/KilledBetween", 4).needing(process|shareable).proves(
		"A waiter that is killed is passed over within TTL plus one second also while the name is held: those behind it who fit beside the holder go on.",
		func(c *C) {
			h := c.holder(locker.Shared())
			ch := c.spawn(c.b.TTL)
			ch.ask(order{Do: "acquire", Name: c.x})
			c.settle()
			p := c.waiter(locker.Shared())
			next := p.freedBy(ch.kill())
			c.alive(h, "when a waiter was killed")
			c.release(next, h)
		}),
	newCase("Death/Successor", 4).needing(link).of(allKinds).proves(
		"A waiter that is cut off once it has been granted the name frees it within its own TTL plus one second.",
		func(c *C) {
			h := c.holder(c.other...)
			b := c.openLink(locker.WithTTL(c.b.TTL))
			p := b.queue(c.x, c.own...)
			next := c.waiter(c.other...)
			c.release(h)
			for c.next([]*pending{p, next}); !p.finished(); c.next([]*pending{p, next}) { // it came too late for its turn
				c.release(next.held(0))
				next = c.waiter(c.other...)
			}
			b.link.Freeze()
			c.release(next.freedBy(time.Now()))
		}),
	newCase("Death/KilledAtRandom", 4).needing(process).of(allKinds).proves(
		"A process that is killed at any moment of taking and giving back frees its locks within TTL plus one second.",
		func(c *C) {
			own := c.open()
			for i := range 3 {
				ch := c.spawn(c.b.TTL)
				ch.ask(order{Do: "loop", Name: c.x, Timeout: time.Minute, Hold: 3 * time.Millisecond})
				time.Sleep(time.Duration(50+37*i) * time.Millisecond)
				died := ch.kill()
				c.release(own.begin(c.ctx, c.x).freedBy(died))
			}
		}),
	newCase("Death/Silence", 4).needing(link).of(allKinds).proves(
		"A holder that is cut off for good frees its locks within TTL plus one second, like one that died.",
		func(c *C) {
			a := c.openLink(locker.WithTTL(c.b.TTL))
			a.acquire(c.x, c.own...)
			p := c.waiter(c.other...)
			time.Sleep(c.b.TTL / 2)
			a.link.Freeze()
			c.release(p.freedBy(time.Now()))
		}),
	newCase("Death/Lease", 4).of(allKinds).proves(
		"A lock with a lease that nobody releases is free when the lease is over, at the latest a second after.",
		func(c *C) {
			b := c.open()
			c.holder(c.own.with(locker.WithLease(c.b.TTL))...)
			granted := time.Now()
			c.release(b.begin(c.ctx, c.x, c.other...).freedBy(granted))
		}),
	newCase("Death/TryAfterLease", 4).of(allKinds).proves(
		"TryAcquire takes a name whose holder's lease is over, at the latest a second after.",
		func(c *C) {
			b := c.open()
			c.holder(c.own.with(locker.WithLease(c.b.TTL))...)
			granted := time.Now()
			for {
				asked := time.Now()
				h, err := b.try(c.x, c.other...)
				if err == nil {
					c.release(h)
					return
				}
				if asked.Sub(granted) > c.afterDeath(granted) {
					c.fatalf("not free %v after it was granted for %v: %v", asked.Sub(granted), c.b.TTL, err)
				}
				time.Sleep(20 * time.Millisecond)
			}
		}),
}

package conformance

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/seed80cd6120/locker"
)

var ghostCases = []*testCase{
	newCase("Ghosts/CancelledWaiter", 5).of(allKinds).proves(
		"An acquire that was cancelled while it waited leaves nothing behind and never becomes a holder later.",
		func(c *C) {
			h := c.holder(c.other...)
			b := c.open()
			for range 5 {
				p := b.queue(c.x, c.own...)
				p.cancel()
				p.fails(nil)
			}
			c.release(h)
			c.leftFree(c.x)
			time.Sleep(100 * time.Millisecond)
			c.leftFree(c.x)
		}),
	newCase("Ghosts/CancelledInFront", 5).of(allKinds).proves(
		"A waiter that gives up lets those behind it go on at once.",
		func(c *C) {
			h := c.holder(c.other...)
			first, second := c.waiter(c.own...), c.waiter(c.other...)
			first.cancel()
			first.returned(soon)
			c.release(h)
			c.release(second.held(cleanupBound))
			c.leftFree(c.x)
		}),
	newCase("Ghosts/CancelledBetween", 5).needing(shareable).proves(
		"A waiter that gives up lets those behind it go on at once who fit beside the holder, while the name is held.",
		func(c *C) {
			h := c.holder(locker.Shared())
			w, reader := c.waiter(), c.waiter(locker.Shared())
			w.cancel()
			w.fails(nil)
			next := reader.held(cleanupBound)
			c.alive(h, "when a waiter gave up")
			c.release(next, h)
			c.leftFree(c.x)
		}),
	newCase("Ghosts/CancelledAtRandom", 5).of(allKinds).proves(
		"An acquire that returned an error leaves nothing behind, at whatever moment its context ended.",
		func(c *C) {
			ls := c.openMany(3)
			together(len(ls), func(i int) {
				for range 40 {
					ctx, cancel := context.WithCancel(c.ctx)
					t := time.AfterFunc(rand.N(4*time.Millisecond), cancel)
					if h, err := ls[i].Acquire(ctx, c.x, c.own...); err == nil {
						time.Sleep(rand.N(time.Millisecond))
						c.release(h)
					}
					t.Stop()
					cancel()
				}
			})
			c.leftFree(c.x)
		}),
	newCase("Ghosts/DeadlineInFlight", 5).of(allKinds).proves(
		"An acquire whose time ran out while the server was being asked leaves nothing behind.",
		func(c *C) {
			l := c.open()
			l.free(c.name("warm"), soon)
			names := c.names(60)
			for i, name := range names {
				ctx, cancel := context.WithTimeout(c.ctx, rand.N(3*time.Millisecond))
				acquire := l.Acquire
				if i%2 == 0 {
					acquire = l.TryAcquire
				}
				if h, err := acquire(ctx, name, c.own...); err == nil {
					c.release(h)
				}
				cancel()
			}
			c.leftFree(names...)
		}),
	newCase("Ghosts/CancelledWhenGranted", 5).of(allKinds).proves(
		"An acquire that is cancelled at the moment of its turn has the lock or leaves nothing behind.",
		func(c *C) {
			a, b := c.open(), c.open()
			for range 25 {
				h := a.acquire(c.x, c.other...)
				p := b.begin(c.ctx, c.x, c.own...)
				time.Sleep(rand.N(2 * time.Millisecond))
				go p.cancel()
				c.release(h)
				p.returned(soon)
				if p.err == nil {
					c.release(p.lock)
				}
			}
			c.leftFree(c.x)
		}),
	newCase("Ghosts/ReplyLost", 5).needing(link).of(allKinds).proves(
		"An acquire whose reply was lost leaves nothing behind on the server.",
		func(c *C) {
			a := c.openWarm()
			free, held := c.name("free"), c.name("held")
			h := c.open().acquire(held, c.other...)
			a.link.Mute()
			each(2, func(i int) { c.unanswered(a.Acquire, []string{free, held}[i]) })
			a.link.Heal()
			c.release(h)
			c.leftFree(free, held)
		}),
	newCase("Ghosts/ReplyLostOfTry", 5).needing(link).of(allKinds).proves(
		"A TryAcquire whose reply was lost leaves nothing behind on the server.",
		func(c *C) {
			a := c.openWarm()
			a.link.Mute()
			c.unanswered(a.TryAcquire, c.x)
			a.link.Heal()
			c.leftFree(c.x)
		}),
	newCase("Ghosts/CleaningFails", 5).needing(link).of(allKinds).proves(
		"If the cleaning up must wait for a server, it goes on in the background, however often it fails.",
		func(c *C) {
			a := c.openWarm()
			a.link.Mute()
			p := a.queue(c.x, c.own...)
			a.link.Freeze() // the request is through, the cleaning up will not be
			p.cancel()
			p.fails(nil)
			c.settle()
			a.cut(3, 100*time.Millisecond, 20*time.Millisecond)
			c.leftFree(c.x)
		}),
	newCase("Ghosts/ServerRestarts", 5).needing(stop).apart().proves(
		"An acquire that failed because of a server restart leaves nothing behind.",
		func(c *C) {
			l := c.open()
			l.free(c.name("warm"), soon)
			h := c.holder()
			ctx, cancel := context.WithTimeout(c.ctx, 600*time.Millisecond)
			defer cancel()
			waiting := l.queueUntil(ctx, c.x)
			fresh := c.name("fresh")
			c.whileAway(func() {
				p := l.begin(ctx, fresh)
				waiting.fails(nil)
				p.fails(nil)
			})
			_ = h.Release(c.ctx)
			c.leftFree(c.x, fresh)
		}),
	newCase("Ghosts/FailedTries", 5).of(allKinds).proves(
		"A TryAcquire that returned ErrNotAcquired leaves nothing behind.",
		func(c *C) {
			h := c.holder(c.other...)
			b := c.open()
			for range 25 {
				b.taken(c.x, c.own...)
			}
			c.release(h)
			c.leftFree(c.x)
		}),
	newCase("Ghosts/ClosedWhileWaiting", 5).of(allKinds).proves(
		"An acquire that Close ended leaves nothing behind and never becomes a holder later.",
		func(c *C) {
			h := c.holder(c.other...)
			b := c.open()
			p := b.queue(c.x, c.own...)
			b.close()
			p.fails(nil)
			c.release(h)
			c.leftFree(c.x)
		}),
	newCase("Ghosts/QueuedGoroutine", 5).proves(
		"A goroutine that gives up behind another of its process takes no turn later.",
		func(c *C) {
			l := c.open()
			h := l.acquire(c.x)
			first := l.queue(c.x)
			second := l.begin(c.ctx, c.x)
			third := l.queue(c.x)
			second.cancel()
			second.fails(context.Canceled)
			c.release(h)
			c.turns(2, []*pending{first, third})
			c.leftFree(c.x)
		}),
	newCase("Ghosts/InvalidCalls", 5).proves(
		"A call that is refused for its arguments or its finished context has taken nothing.",
		func(c *C) {
			a, ended := c.open(), c.ended()
			for range 5 {
				c.refused(nil, ended, a.Acquire, c.x)
				c.refused(nil, ended, a.TryAcquire, c.x)
				c.refused(nil, c.ctx, a.TryAcquire, c.x, locker.WithLease(-1))
			}
			c.leftFree(c.x)
		}),
}

// openWarm opens a client over a link that has been used.
func (c *C) openWarm() *client {
	c.tb.Helper()
	a := c.openLink()
	a.free(c.name("warm"), soon)
	return a
}

// unanswered fails the case if name is acquired though no reply comes.
func (c *C) unanswered(acquire acquirer, name string) {
	c.tb.Helper()
	ctx, cancel := context.WithTimeout(c.ctx, 400*time.Millisecond)
	defer cancel()
	if _, err := acquire(ctx, name, c.own...); err == nil {
		c.errorf("got a lock on %q without a reply", name)
	}
}

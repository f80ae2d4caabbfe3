package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed80cd6120/locker"
)

var lossCases = []*testCase{
	newCase("Loss/Frozen", 3).needing(link).of(allKinds).proves(
		"lock.Context() ends, with cause ErrLost, no later than the moment the server may give the lock to another: the holder is cut off, silently.",
		func(c *C) { c.lossBeforeTakeover(func(l Link) { l.Freeze() }) }),
	newCase("Loss/Cut", 3).needing(link).proves(
		"lock.Context() ends, with cause ErrLost, no later than the moment the server may give the lock to another: the holder's connections are cut.",
		func(c *C) { c.lossBeforeTakeover(func(l Link) { l.Cut() }) }),
	newCase("Loss/RepliesLost", 3).needing(link).proves(
		"The deadline is counted from requests that the server has acknowledged: a holder that hears nothing loses the lock, though the server may hear it.",
		func(c *C) {
			a := c.openLink(locker.WithTTL(c.b.TTL))
			w := c.watch(a.acquire(c.x))
			a.link.Mute()
			w.lostWithin(c.b.TTL, "replies stopped")
		}),
	newCase("Loss/StaysLost", 3).needing(link).of(allKinds).proves(
		"A lock that is lost stays lost: an acknowledgement that comes late does not stretch it, and a renewal does not bring it back.",
		func(c *C) {
			a, b := c.openLink(locker.WithTTL(c.b.TTL)), c.open()
			h := a.acquire(c.x, c.own...)
			w := c.watch(h)
			a.link.Freeze()
			w.lostWithin(c.b.TTL, "the connection froze")
			a.link.Heal()
			for range 20 {
				if h.Context().Err() == nil {
					c.fatalf("a lost lock is alive again")
				}
				time.Sleep(c.b.TTL / 20)
			}
			b.free(c.x, soon)
		}),
	newCase("Loss/OldGrant", 3).needing(link).of(allKinds).proves(
		"A grant that is heard of when its lease is over begins no holding: its waiter waits on, and the successor is left alone.",
		func(c *C) {
			h := c.holder(c.other...)
			b := c.openLink(locker.WithTTL(c.b.TTL))
			p := b.queue(c.x, c.own...)
			b.link.Freeze()
			c.release(h)
			next := c.open().begin(c.ctx, c.x, c.other...).held(c.b.TTL + soon)
			b.link.Heal()
			c.settle()
			time.Sleep(c.b.TTL / 2)
			c.alive(next, "when an older grant was heard of")
			p.waits("another holds the name")
			c.release(next)
			c.release(p.held(longTTL + soon))
		}),
	newCase("Loss/LateAnswer", 3).needing(link).of(allKinds).proves(
		"The deadline is counted from before the request was sent, and not from its answer, which may come late.",
		func(c *C) {
			a := c.openLink(locker.WithTTL(c.b.TTL))
			a.free(c.name("warm"), soon)
			a.link.Mute()
			p := a.queue(c.x, c.own...) // is granted
			next := c.waiter(c.other...)
			time.Sleep(c.b.TTL / 2)
			a.link.Heal()
			select {
			case <-p.done:
			case <-time.After(c.b.TTL / 4):
			}
			if !p.finished() || p.err != nil { // it asked again, or takes the answer when its lease is nearly over
				waiting := []*pending{p, next}
				for range 2 {
					h := c.next(waiting)
					if !p.finished() || h != p.lock { // it is next's
						c.release(h)
					} else if err := c.giveBack(h); !errors.Is(err, locker.ErrLost) || time.Now().Before(h.Deadline()) {
						c.expect(err, nil, "release of %q", h.Name())
					}
				}
				return
			}
			w := c.watch(p.lock)
			a.link.Freeze()
			second := next.held(c.b.TTL + soon)
			w.before(next.stamp)
			c.release(second)
		}),
	newCase("Loss/NotRenewedBack", 3).needing(destroy).of(allKinds).proves(
		"A renewal never brings back a holding that is gone.",
		func(c *C) {
			a, b := c.open(locker.WithTTL(c.b.TTL)), c.open()
			w := c.watch(a.acquire(c.x, c.own...))
			if err := c.h.Destroy(c.ctx, c.x); err != nil {
				if w.lock.Context().Err() != nil { // servers were late, and what is lost already cannot be destroyed
					c.tooSlow()
				} else {
					c.unlessLate(c.begun, c.lateFor(), "Destroy: %v", err)
				}
				return
			}
			w.lostWithin(told, "the lock was destroyed")
			// Nobody wants the name: a renewal on its way or to come could take it.
			for range 5 {
				time.Sleep(c.b.TTL / 5)
				h, err := b.try(c.x)
				c.must(err, "a lock that was destroyed is there again")
				c.alive(h, "at once")
				c.release(h)
			}
		}),
	newCase("Loss/Destroyed", 3).needing(destroy).of(allKinds).proves(
		"A holder whose lock is removed by hand is told within a second.",
		func(c *C) { c.loses(c.watch(c.holder(c.own...))) }),
	newCase("Loss/DestroyedLease", 3).needing(destroy).proves(
		"A holder with a lease whose lock is removed by hand is told within a second, also when another holds the name by then.",
		func(c *C) {
			c.loses(c.watch(c.holder(locker.WithLease(longTTL))))
			name := c.name("taken")
			w := c.watch(c.open().acquire(name, locker.WithLease(longTTL)))
			c.destroy(name)
			c.open().acquire(name)
			w.lostWithin(told, "the lock was destroyed")
		}),
	newCase("Loss/DestroyedOfMany", 3).needing(destroy).proves(
		"A holder whose lock is removed by hand loses that one and no other.",
		func(c *C) {
			l := c.open()
			w, other := c.watch(l.acquire(c.x)), l.acquire(c.name("y"))
			c.loses(w)
			c.alive(other, "although another was destroyed")
			c.release(other)
		}),
	newCase("Loss/Lease", 3).of(allKinds).proves(
		"A lock with a lease is lost when the lease is over, before another gets it, and not renewed.",
		func(c *C) {
			w := c.watch(c.holder(c.own.with(locker.WithLease(c.b.TTL))...))
			p := c.waiter(c.other...)
			w.lostWithin(c.b.TTL, "it was granted for that long")
			second := p.held(c.b.TTL + soon)
			w.before(p.stamp)
			c.release(second)
		}),
	newCase("Loss/LookTellsTime", 3).proves(
		"Context().Err() compares the clock itself: no look that begins after the time of the lock finds it alive.",
		func(c *C) {
			l := c.open()
			for range 3 {
				c.looksTell(l.acquire(c.name("x"), locker.WithLease(shortLease)).Context())
			}
		}),
	newCase("Loss/DoneAndErrAgree", 3).proves(
		"When the context has ended Done is closed and Err is set, both ways.",
		func(c *C) {
			l := c.open()
			for i := range 4 {
				ctx := l.acquire(c.name("x"), locker.WithLease(shortLease)).Context()
				if i%2 == 0 {
					c.endsWith(ctx, locker.ErrLost, "its lease was over")
					continue
				}
				c.within(soon, func() bool { return ctx.Err() != nil })
				if !c.closes(ctx.Done(), soon) {
					c.errorf("Err is %v, Done is not closed", ctx.Err())
				}
			}
		}),
	newCase("Loss/Deadline", 3).proves(
		"Deadline is the moment at which the lock is lost unless it is renewed before.",
		func(c *C) {
			c.whileLiving(func(ttl time.Duration) error {
				l := c.open(locker.WithTTL(ttl))
				before := time.Now()
				leased := l.acquire(c.name("leased"), locker.WithLease(ttl))
				if d := leased.Deadline(); d.After(time.Now().Add(ttl)) || d.Before(before) {
					return fmt.Errorf("deadline %v after the acquisition with a lease of %v", d.Sub(before), ttl)
				}
				renewed := l.acquire(c.name("renewed"))
				first := renewed.Deadline()
				moved := func() bool { return renewed.Deadline().After(first.Add(ttl / 10)) }
				c.within(ttl+soon, func() bool { return moved() || renewed.Context().Err() != nil })
				if !moved() {
					return errors.New("the deadline of a lock that is renewed does not move")
				}
				c.watch(leased).lostWithin(ttl, "its deadline")
				return nil
			})
		}),
	newCase("Loss/CauseReleased", 3).proves(
		"After a normal Release the cause is ErrReleased.",
		func(c *C) {
			h := c.holder()
			c.expect(h.Context().Err(), nil, "the context of a held lock")
			c.release(h)
			if !errors.Is(cause(h), locker.ErrReleased) || errors.Is(cause(h), locker.ErrLost) || h.Context().Err() == nil {
				c.errorf("after Release: %v, cause %v", h.Context().Err(), cause(h))
			}
		}),
	newCase("Loss/CauseStays", 3).proves(
		"The cause of a lock's context tells how it ended first: lost stays lost, released stays released.",
		func(c *C) {
			l := c.open()
			h := l.acquire(c.x, locker.WithLease(shortLease))
			c.ends(h, "its lease was over")
			_ = h.Release(c.ctx)
			if !errors.Is(cause(h), locker.ErrLost) || errors.Is(cause(h), locker.ErrReleased) {
				c.errorf("lost, then released: %v", cause(h))
			}
			h = l.acquire(c.name("y"), locker.WithLease(shortLease))
			_ = h.Release(c.ctx)
			time.Sleep(2 * shortLease)
			if h.Context().Err() == nil || !errors.Is(cause(h), locker.ErrReleased) && !errors.Is(cause(h), locker.ErrLost) {
				c.errorf("released, then past its time: %v", cause(h))
			}
		}),
	newCase("Loss/ContextOfCaller", 3).proves(
		"The context of a lock carries the values of the context given to Acquire, but does not end with it.",
		func(c *C) {
			type key struct{}
			ctx, cancel := context.WithCancel(context.WithValue(c.ctx, key{}, "value"))
			h, err := c.open().Acquire(ctx, c.x)
			c.must(err, "acquire")
			if h.Context().Value(key{}) != "value" {
				c.errorf("the value is gone")
			}
			cancel()
			time.Sleep(50 * time.Millisecond)
			c.alive(h, "when the context of Acquire ended")
			c.release(h)
		}),
	newCase("Loss/ServerGone", 3).needing(stop).apart().proves(
		"A holder that cannot renew because the server is away loses the lock at its deadline.",
		func(c *C) {
			w := c.watch(c.open(locker.WithTTL(c.b.TTL)).acquire(c.x))
			c.whileAway(func() { w.lostWithin(c.b.TTL, "the server went away") })
		}),
	newCase("Loss/StoppedProcess", 3).needing(process).proves(
		"A process that was stopped and goes on learns of the loss at the first look, before any timer has run.",
		func(c *C) {
			ch := c.spawn(c.b.TTL)
			c.tokensRise(ch.acquire(c.x).Token)
			watched := ch.ask(order{Do: "watch", Name: c.x})
			p := c.waiter()
			c.must(ch.process.Pause(), "SIGSTOP")
			second := p.held(c.b.TTL + soon)
			look := ch.ask(order{Do: "look", Name: c.x})
			c.must(ch.process.Resume(), "SIGCONT")
			if r := look.answer(); r.Kind != "lost" {
				c.errorf("the first look after the pause says %q", r.Kind)
			}
			r := watched.answer()
			if r.Alive > p.stamp {
				c.errorf("a look %v after the next holder was granted the lock found it alive", time.Duration(r.Alive-p.stamp))
			}
			if r.Kind != "lost" {
				c.errorf("the lock ended with %q", r.Kind)
			}
			c.rises(second)
			time.Sleep(100 * time.Millisecond)
			c.alive(second, "when the stopped process went on")
			c.release(second)
		}),
	newCase("Loss/Do", 3).needing(madeByLocker).proves(
		"The context that Do gives to its function ends when the lock is lost, and Do returns ErrLost.",
		func(c *C) {
			err := c.b.api.do(c.ctx, c.openLocker().locker, c.x, func(ctx context.Context, lock *locker.Lock) error {
				if !c.closes(ctx.Done(), shortLease+2*time.Second) {
					c.errorf("the context of Do is alive long after the lease")
				}
				c.expect(context.Cause(ctx), locker.ErrLost, "the cause of Do's context")
				return nil
			}, locker.WithLease(shortLease))
			c.expect(err, locker.ErrLost, "Do")
		}),
	newCase("Loss/DoFails", 3).needing(madeByLocker).proves(
		"If the lock was lost errors.Is finds ErrLost beside the error of the function that Do ran, even if that did not notice.",
		func(c *C) {
			failed := errors.New("failed")
			l := c.openLocker().locker
			for _, fails := range []func(context.Context) error{
				func(context.Context) error { return failed },
				func(ctx context.Context) error { return fmt.Errorf("%w: %w", failed, ctx.Err()) },
			} {
				err, ran := locker.ErrLost, false
				for !ran && errors.Is(err, locker.ErrLost) && c.ctx.Err() == nil { // on a machine that is late it may be lost before
					err = c.b.api.do(c.ctx, l, c.x, func(ctx context.Context, lock *locker.Lock) error {
						ran = true
						c.ends(lock, "its lease was over")
						return fails(ctx)
					}, locker.WithLease(shortLease))
				}
				c.expect(err, locker.ErrLost, "Do")
				c.expect(err, failed, "Do")
			}
			err := c.b.api.do(c.ctx, l, c.x, func(context.Context, *locker.Lock) error { return failed })
			if !errors.Is(err, failed) || errors.Is(err, locker.ErrLost) {
				c.errorf("Do returned %v of a lock that was not lost", err)
			}
			c.open().free(c.x, soon)
		}),
}

// lossBeforeTakeover cuts a holder of several locks off and lets others take over.
func (c *C) lossBeforeTakeover(cut func(Link)) {
	c.whileLiving(func(ttl time.Duration) error {
		a := c.openLink(locker.WithTTL(ttl))
		var watches []*watch
		var waiting []*pending
		for _, name := range c.names(3) {
			watches = append(watches, c.watch(a.acquire(name, c.own...)))
			waiting = append(waiting, c.open().queue(name, c.other...))
		}
		time.Sleep(ttl / 2) // somewhere between two renewals
		for _, w := range watches {
			if w.lock.Context().Err() != nil {
				return fmt.Errorf("lost before anything was broken: %w", cause(w.lock))
			}
		}
		cut(a.link)
		for i, w := range watches {
			next := waiting[i].held(ttl + soon)
			w.before(waiting[i].stamp)
			w.lostWithin(soon, "the successor came")
			c.release(next)
		}
		a.link.Heal()
		return nil
	})
}

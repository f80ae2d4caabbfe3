package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/seed80cd6120/locker"
)

var releaseCases = []*testCase{
	newCase("Release/Twice", 7).of(allKinds).proves(
		"Release is harmless when called twice: it frees only this holding, never a successor's.",
		func(c *C) {
			h := c.holder(c.own...)
			c.release(h)
			next := c.holder(c.other...)
			c.release(h, h, h)
			c.holds(next)
		}),
	newCase("Release/TwiceOwnSuccessor", 7).proves(
		"Release frees only this holding, also when the successor is a lock of the same Locker.",
		func(c *C) {
			a := c.open()
			h := a.acquire(c.x)
			c.release(h)
			next := a.acquire(c.x)
			_ = h.Release(c.ctx)
			c.holds(next)
		}),
	newCase("Release/AfterLease", 7).of(allKinds).proves(
		"After a loss Release says ErrLost and leaves the successor alone: the lease was over.",
		func(c *C) {
			h := c.holder(c.own.with(locker.WithLease(c.b.TTL))...)
			next := c.holder(c.other...)
			c.releaseLost(h)
			c.releaseLost(h)
			c.holds(next)
		}),
	newCase("Release/AfterDestroy", 7).needing(destroy).of(allKinds).proves(
		"After a loss Release says ErrLost and leaves the successor alone: the lock had been removed by hand.",
		func(c *C) {
			h := c.holder(c.own...)
			c.destroy(c.x)
			next := c.holder(c.other...)
			c.ends(h, "the lock was destroyed")
			c.releaseLost(h)
			c.holds(next)
		}),
	newCase("Release/DestroyedUnseen", 7).needing(destroy).of(allKinds).proves(
		"Release of a lock that was removed by hand a moment ago leaves the successor alone.",
		func(c *C) {
			a, b := c.open(), c.open()
			for i := range 6 {
				own := c.own
				if i%2 == 1 && c.b.AtLeast {
					own = own.with(locker.AtLeast(longTTL))
				}
				begun := time.Now()
				h := a.acquire(c.x, own...)
				p := b.queue(c.x, c.other...)
				c.destroyUnder(c.x, begun)
				next := p.held(soon)
				if err := h.Release(c.ctx); !errors.Is(err, locker.ErrLost) {
					c.expect(err, nil, "release")
				}
				c.holds(next)
			}
		}),
	newCase("Release/AfterTakeover", 7).needing(link).of(allKinds).proves(
		"After a loss Release says ErrLost and leaves the successor alone: the holder had been cut off.",
		func(c *C) {
			a := c.openLink(locker.WithTTL(c.b.TTL))
			h := a.acquire(c.x, c.own...)
			a.link.Freeze()
			next := c.holder(c.other...)
			a.link.Heal()
			c.releaseLost(h)
			time.Sleep(500 * time.Millisecond) // what is on its way arrives
			c.holds(next)
		}),
	newCase("Release/EndedContext", 7).of(allKinds).proves(
		"Release works when the ctx of the work has been cancelled.",
		func(c *C) {
			a, b := c.open(), c.open()
			ended := c.ended()
			for range 3 {
				h := a.acquire(c.x, c.own...)
				start := time.Now()
				err := h.Release(ended)
				if took := time.Since(start); took > soon+c.late.Slack(start) {
					c.errorf("Release took %v", took)
				}
				if err != nil && !errors.Is(err, context.Canceled) {
					c.errorf("Release with an ended ctx: %v", err)
				}
				b.free(c.x, cleanupBound)
			}
		}),
	newCase("Release/AcquireContextEnded", 7).proves(
		"Release works when the ctx given to Acquire has been cancelled.",
		func(c *C) {
			ctx, cancel := context.WithCancel(c.ctx)
			h, err := c.open().Acquire(ctx, c.x)
			c.must(err, "acquire")
			cancel()
			c.release(h)
			c.open().free(c.x, soon)
		}),
	newCase("Release/ManyAtOnce", 7).of(allKinds).proves(
		"Release may be called by many at once, and frees this holding once.",
		func(c *C) {
			a, b := c.open(), c.open()
			for range 5 {
				h := a.acquire(c.x, c.own...)
				p := b.queue(c.x, c.other...)
				together(8, func(int) { c.release(h) })
				c.holds(p.held(soon))
			}
		}),
	newCase("Release/OtherGoroutine", 10).proves(
		"A lock may be released by another goroutine than the one that took it.",
		func(c *C) {
			l := c.open()
			c.release(l.begin(c.ctx, c.x).held(soon))
			l.free(c.x, soon)
		}),
	newCase("Release/OnlyItsName", 7).proves(
		"Release frees only this holding, not those of other names.",
		func(c *C) {
			l, other := c.open(), c.open()
			x, y := l.acquire(c.x), l.acquire(c.name("y"))
			c.release(x)
			c.alive(y, "by the release of another name")
			other.free(c.x, soon)
			c.holds(y)
		}),
	newCase("Release/FreesForAll", 7).of(allKinds).proves(
		"What was released can be taken by anybody: by Acquire, by TryAcquire, by the same Locker.",
		func(c *C) {
			a, b := c.open(), c.open()
			for range 5 {
				c.release(a.acquire(c.x, c.own...))
				var got Holding
				if !c.within(soon, func() bool {
					h, err := b.try(c.x, c.other...)
					got = h
					return err == nil
				}) {
					c.fatalf("TryAcquire does not get what was released")
				}
				c.release(got)
			}
		}),
	newCase("Release/AfterClose", 7).proves(
		"Release after Close is harmless.",
		func(c *C) {
			a := c.open()
			h := a.acquire(c.x)
			a.close()
			next := c.holder()
			if err := h.Release(c.ctx); err != nil && !errors.Is(err, locker.ErrClosed) && !errors.Is(err, locker.ErrLost) {
				c.errorf("release after Close: %v", err)
			}
			c.holds(next)
		}),
}

package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/seed80cd6120/locker"
)

var closeCases = []*testCase{
	newCase("Close/ReleasesHeld", 15).of(allKinds).proves(
		"Close releases what is held.",
		func(c *C) {
			l := c.open()
			names := c.names(10)
			var held []Holding
			for _, name := range names {
				held = append(held, l.acquire(name, c.own...))
			}
			l.close()
			for _, h := range held {
				if h.Context().Err() == nil || errors.Is(cause(h), locker.ErrLost) {
					c.errorf("the context of %q after Close: %v, cause %v", h.Name(), h.Context().Err(), cause(h))
				}
			}
			c.leftFree(names...)
		}),
	newCase("Close/EndsWaiters", 15).of(allKinds).proves(
		"Close ends waiters with ErrClosed.",
		func(c *C) {
			c.holder(c.other...)
			l := c.open()
			waiting := []*pending{l.queue(c.x, c.own...)}
			for range 4 { // behind the one at the server
				waiting = append(waiting, l.begin(c.ctx, c.x, c.own...))
			}
			l.close()
			for _, p := range waiting {
				p.fails(locker.ErrClosed)
			}
		}),
	newCase("Close/UseAfterwards", 15).proves(
		"After Close every call returns ErrClosed, and Close nil.",
		func(c *C) {
			l := c.open()
			l.free(c.x, soon)
			l.close()
			for _, acquire := range l.ways() {
				c.refused(locker.ErrClosed, c.ctx, acquire, c.x)
			}
			l.close()
			l.close()
		}),
	newCase("Close/Unused", 15).proves(
		"A Locker that was never used can be closed.",
		func(c *C) {
			for range 3 {
				c.open().close()
			}
		}),
	newCase("Close/StopsGoroutines", 15).proves(
		"Close stops every goroutine.",
		func(c *C) {
			// What the client library keeps for all is there after the first. No other Locker is open: one that renews
			// has more goroutines at one time than at another.
			c.costsNoGoroutines(1, 8, 4, "Lockers were opened and closed", func(n int) {
				for range n {
					l := c.open()
					l.acquire(c.x)
					l.free(c.name("free"), soon)
					l.queue(c.x)
					l.close()
				}
			})
		}),
	newCase("Close/LeavesOthers", 15).proves(
		"Close closes only what the constructor opened: other Lockers go on.",
		func(c *C) {
			a, b := c.open(), c.open()
			h := b.acquire(c.x)
			a.free(c.name("y"), soon)
			p := b.queue(c.x)
			a.close()
			c.alive(h, "when another Locker was closed")
			b.free(c.name("z"), soon)
			c.release(h)
			c.release(p.held(soon))
		}),
	newCase("Close/InTheMiddle", 15).proves(
		"Close may be called at any moment, by many at once: every call returns, and nothing is left.",
		func(c *C) {
			for _, name := range c.names(4) {
				l := c.open()
				together(9, func(i int) {
					if i >= 6 {
						time.Sleep(5 * time.Millisecond)
						l.close()
						return
					}
					for {
						h, err := l.Acquire(c.ctx, name)
						if err != nil {
							c.expect(err, locker.ErrClosed, "while Close is at work")
							return
						}
						if err := h.Release(c.ctx); err != nil && !errors.Is(err, locker.ErrLost) {
							c.expect(err, locker.ErrClosed, "release while Close is at work")
						}
					}
				})
				c.leftFree(name)
			}
		}),
	newCase("Close/Unreachable", 15).needing(link).proves(
		"If ctx ends before the servers could be reached Close returns, and what is held is free after its TTL.",
		func(c *C) {
			a := c.openLink(locker.WithTTL(c.b.TTL))
			h := a.acquire(c.x)
			a.link.Freeze()
			ctx, cancel := context.WithTimeout(c.ctx, 300*time.Millisecond)
			defer cancel()
			p := c.open().begin(c.ctx, c.x)
			closed := time.Now()
			_ = a.Close(ctx)
			if h.Context().Err() == nil {
				c.errorf("the lock's context is alive after Close")
			}
			c.release(p.freedBy(closed))
		}),
	newCase("Close/EndedContext", 15).proves(
		"Close with a ctx that has ended still ends the Locker.",
		func(c *C) {
			c.holder()
			l := c.open()
			p := l.queue(c.x)
			_ = l.Close(c.ended())
			p.fails(locker.ErrClosed)
			c.refused(locker.ErrClosed, c.ctx, l.TryAcquire, c.name("y"))
		}),
}

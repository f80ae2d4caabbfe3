package conformance

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/seed80cd6120/locker"
)

var releaseCases = []*testCase{
	{
		name: "Release/Twice", promise: 7, kinds: allKinds,
		says: "Release is harmless when called twice: it frees only this holding, never a successor's.",
		run: func(c *C) {
			name := c.name("x")
			a, b := c.open(), c.open()
			h := a.acquire(name, c.own...)
			c.release(h)
			next := b.acquire(name, c.other...)
			for range 3 {
				if err := h.Release(c.ctx); err != nil {
					c.errorf("releasing again: %v", err)
				}
			}
			c.holds(next)
		},
	},
	{
		name: "Release/TwiceOwnSuccessor", promise: 7,
		says: "Release frees only this holding, also when the successor is a lock of the same Locker.",
		run: func(c *C) {
			name := c.name("x")
			a := c.open()
			h := a.acquire(name)
			c.release(h)
			next := a.acquire(name)
			_ = h.Release(c.ctx)
			c.holds(next)
		},
	},
	{
		name: "Release/AfterLease", promise: 7, kinds: allKinds,
		says: "After a loss Release says ErrLost and leaves the successor alone: the lease was over.",
		run: func(c *C) {
			name := c.name("x")
			h := c.open().acquire(name, c.own.with(locker.WithLease(c.b.TTL))...)
			next := c.open().acquire(name, c.other...)
			c.releaseLost(h)
			c.releaseLost(h)
			c.holds(next)
		},
	},
	{
		name: "Release/AfterDestroy", promise: 7, needs: destroy, kinds: allKinds,
		says: "After a loss Release says ErrLost and leaves the successor alone: the lock had been removed by hand.",
		run: func(c *C) {
			name := c.name("x")
			h := c.open().acquire(name, c.own...)
			c.destroy(name)
			next := c.open().acquire(name, c.other...)
			c.ends(h, "the lock was destroyed")
			c.releaseLost(h)
			c.holds(next)
		},
	},
	{
		name: "Release/DestroyedUnseen", promise: 7, needs: destroy, kinds: allKinds,
		says: "Release of a lock that was removed by hand a moment ago leaves the successor alone.",
		run: func(c *C) {
			name := c.name("x")
			a, b := c.open(), c.open()
			for range 5 {
				h := a.acquire(name, c.own...)
				p := b.queue(name, c.other...)
				c.destroy(name)
				next := p.held(soon)
				if err := h.Release(c.ctx); err != nil && !errors.Is(err, locker.ErrLost) {
					c.errorf("release: %v", err)
				}
				c.alive(next, "by the release of its predecessor")
				c.open().taken(name)
				c.release(next)
			}
		},
	},
	{
		name: "Release/AfterTakeover", promise: 7, needs: link, kinds: allKinds,
		says: "After a loss Release says ErrLost and leaves the successor alone: the holder had been cut off.",
		run: func(c *C) {
			name := c.name("x")
			a := c.openLink(locker.WithTTL(c.b.TTL))
			h := a.acquire(name, c.own...)
			a.link.Freeze()
			next := c.open().acquire(name, c.other...)
			a.link.Heal()
			c.releaseLost(h)
			time.Sleep(500 * time.Millisecond) // what is on its way arrives
			c.holds(next)
		},
	},
	{
		name: "Release/EndedContext", promise: 7, kinds: allKinds,
		says: "Release works when the ctx of the work has been cancelled.",
		run: func(c *C) {
			name := c.name("x")
			a, b := c.open(), c.open()
			ended, cancel := context.WithCancel(c.ctx)
			cancel()
			for range 3 {
				h := a.acquire(name, c.own...)
				start := time.Now()
				err := h.Release(ended)
				if took := time.Since(start); took > soon {
					c.errorf("Release took %v", took)
				}
				if err != nil && !errors.Is(err, context.Canceled) {
					c.errorf("Release with an ended ctx: %v", err)
				}
				b.free(name, ghostBound)
			}
		},
	},
	{
		name: "Release/AcquireContextEnded", promise: 7,
		says: "Release works when the ctx given to Acquire has been cancelled.",
		run: func(c *C) {
			name := c.name("x")
			ctx, cancel := context.WithCancel(c.ctx)
			h, err := c.open().Acquire(ctx, name)
			if err != nil {
				c.fatalf("acquire: %v", err)
			}
			cancel()
			c.release(h)
			c.open().free(name, soon)
		},
	},
	{
		name: "Release/ManyAtOnce", promise: 7, kinds: allKinds,
		says: "Release may be called by many at once, and frees this holding once.",
		run: func(c *C) {
			name := c.name("x")
			a, b := c.open(), c.open()
			for range 5 {
				h := a.acquire(name, c.own...)
				p := b.queue(name, c.other...)
				var wg sync.WaitGroup
				for range 8 {
					wg.Go(func() {
						if err := h.Release(c.ctx); err != nil {
							c.errorf("release: %v", err)
						}
					})
				}
				next := p.held(soon)
				wg.Wait()
				c.holds(next)
			}
		},
	},
	{
		name: "Release/OtherGoroutine", promise: 10,
		says: "A lock may be released by another goroutine than the one that took it.",
		run: func(c *C) {
			name := c.name("x")
			locks := make(chan Holding, 1)
			l := c.open()
			go func() { locks <- l.acquire(name) }()
			select {
			case h := <-locks:
				c.release(h)
			case <-c.ctx.Done():
			}
			l.free(name, soon)
		},
	},
	{
		name: "Release/OnlyItsName", promise: 7,
		says: "Release frees only this holding, not those of other names.",
		run: func(c *C) {
			l, other := c.open(), c.open()
			x, y := l.acquire(c.name("x")), l.acquire(c.name("y"))
			c.release(x)
			c.alive(y, "by the release of another name")
			other.free(x.Name(), soon)
			c.holds(y)
		},
	},
	{
		name: "Release/FreesForAll", promise: 7, kinds: allKinds,
		says: "What was released can be taken by anybody: by Acquire, by TryAcquire, by the same Locker.",
		run: func(c *C) {
			name := c.name("x")
			a, b := c.open(), c.open()
			for range 5 {
				c.release(a.acquire(name, c.own...))
				var got Holding
				if !c.within(soon, func() bool {
					h, err := b.try(name, c.other...)
					got = h
					return err == nil
				}) {
					c.fatalf("TryAcquire does not get what was released")
				}
				c.release(got)
			}
		},
	},
	{
		name: "Release/AfterClose", promise: 7,
		says: "Release after Close is harmless.",
		run: func(c *C) {
			name := c.name("x")
			a := c.open()
			h := a.acquire(name)
			if err := a.Close(c.ctx); err != nil {
				c.errorf("close: %v", err)
			}
			next := c.open().acquire(name)
			if err := h.Release(c.ctx); err != nil && !errors.Is(err, locker.ErrClosed) && !errors.Is(err, locker.ErrLost) {
				c.errorf("release after Close: %v", err)
			}
			c.holds(next)
		},
	},
}

// holds fails the case unless h is held, and releases it.
func (c *C) holds(h Holding) {
	c.tb.Helper()
	c.alive(h, "although nobody released it")
	c.open().taken(h.Name())
	c.release(h)
}

func (c *C) releaseLost(h Holding) {
	c.tb.Helper()
	if err := h.Release(c.ctx); !errors.Is(err, locker.ErrLost) {
		c.errorf("release of a lock that was lost: %v, want ErrLost", err)
	}
}

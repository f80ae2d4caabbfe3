package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed80cd6120/locker"
)

var closeCases = []*testCase{
	{
		name: "Close/ReleasesHeld", promise: 15, kinds: allKinds,
		says: "Close releases what is held.",
		run: func(c *C) {
			l := c.open()
			var held []Holding
			for i := range 10 {
				held = append(held, l.acquire(c.name(fmt.Sprint(i)), c.own...))
			}
			if err := l.Close(c.ctx); err != nil {
				c.errorf("close: %v", err)
			}
			var names []string
			for _, h := range held {
				names = append(names, h.Name())
				if h.Context().Err() == nil {
					c.errorf("the context of %q is alive after Close", h.Name())
				}
				if cause := context.Cause(h.Context()); errors.Is(cause, locker.ErrLost) {
					c.errorf("Close made the cause %v", cause)
				}
			}
			c.exorcised(names...)
		},
	},
	{
		name: "Close/EndsWaiters", promise: 15, kinds: allKinds,
		says: "Close ends waiters with ErrClosed.",
		run: func(c *C) {
			name := c.name("x")
			c.open().acquire(name, c.other...)
			l := c.open()
			atServer := l.queue(name, c.own...)
			var behind []*pending
			for range 4 {
				behind = append(behind, l.begin(c.ctx, name, c.own...))
			}
			if err := l.Close(c.ctx); err != nil {
				c.errorf("close: %v", err)
			}
			for _, p := range append(behind, atServer) {
				p.returned(soon)
				if !errors.Is(p.err, locker.ErrClosed) {
					c.errorf("a waiter got %v, want ErrClosed", p.err)
				}
			}
		},
	},
	{
		name: "Close/UseAfterwards", promise: 15,
		says: "After Close every call returns ErrClosed, and Close nil.",
		run: func(c *C) {
			l := c.open()
			l.free(c.name("x"), soon)
			if err := l.Close(c.ctx); err != nil {
				c.errorf("close: %v", err)
			}
			if _, err := l.Acquire(c.ctx, c.name("x")); !errors.Is(err, locker.ErrClosed) {
				c.errorf("Acquire after Close: %v", err)
			}
			if _, err := l.TryAcquire(c.ctx, c.name("x")); !errors.Is(err, locker.ErrClosed) {
				c.errorf("TryAcquire after Close: %v", err)
			}
			for range 2 {
				if err := l.Close(c.ctx); err != nil {
					c.errorf("Close after Close: %v", err)
				}
			}
		},
	},
	{
		name: "Close/Unused", promise: 15,
		says: "A Locker that was never used can be closed.",
		run: func(c *C) {
			for range 3 {
				if err := c.open().Close(c.ctx); err != nil {
					c.errorf("close: %v", err)
				}
			}
		},
	},
	{
		name: "Close/StopsGoroutines", promise: 15,
		says: "Close stops every goroutine.",
		run: func(c *C) {
			name := c.name("x")
			c.open().acquire(name)
			cycle := func() {
				l := c.open()
				l.acquire(c.name("held"))
				l.free(c.name("free"), soon)
				l.begin(c.ctx, name)
				c.settle()
				if err := l.Close(c.ctx); err != nil {
					c.errorf("close: %v", err)
				}
			}
			cycle() // what the client library keeps for all is there now
			before := c.steady()
			const cycles = 8
			for range cycles {
				cycle()
			}
			c.noMoreGoroutinesThan(before+cycles/2, fmt.Sprintf("%d Lockers were opened and closed", cycles))
		},
	},
	{
		name: "Close/LeavesOthers", promise: 15,
		says: "Close closes only what the constructor opened: other Lockers go on.",
		run: func(c *C) {
			a, b := c.open(), c.open()
			name := c.name("x")
			h := b.acquire(name)
			a.free(c.name("y"), soon)
			p := b.queue(name)
			if err := a.Close(c.ctx); err != nil {
				c.errorf("close: %v", err)
			}
			c.alive(h, "when another Locker was closed")
			b.free(c.name("z"), soon)
			c.release(h)
			c.release(p.held(soon))
		},
	},
	{
		name: "Close/InTheMiddle", promise: 15,
		says: "Close may be called at any moment, by many at once: every call returns, and nothing is left.",
		run: func(c *C) {
			for range 4 {
				l := c.open()
				name := c.name("x")
				var wg sync.WaitGroup
				for range 6 {
					wg.Go(func() {
						for {
							h, err := l.Acquire(c.ctx, name)
							if errors.Is(err, locker.ErrClosed) {
								return
							}
							if err != nil {
								c.errorf("while Close is at work: %v", err)
								return
							}
							if err := h.Release(c.ctx); err != nil && !errors.Is(err, locker.ErrLost) && !errors.Is(err, locker.ErrClosed) {
								c.errorf("release while Close is at work: %v", err)
							}
						}
					})
				}
				time.Sleep(5 * time.Millisecond)
				for range 3 {
					wg.Go(func() {
						if err := l.Close(c.ctx); err != nil {
							c.errorf("close: %v", err)
						}
					})
				}
				wg.Wait()
				c.exorcised(name)
			}
		},
	},
	{
		name: "Close/Unreachable", promise: 15, needs: link,
		says: "If ctx ends before the servers could be reached Close returns, and what is held is free after its TTL.",
		run: func(c *C) {
			name := c.name("x")
			a := c.openLink(locker.WithTTL(c.b.TTL))
			h := a.acquire(name)
			a.link.Freeze()
			ctx, cancel := context.WithTimeout(c.ctx, 300*time.Millisecond)
			defer cancel()
			p := c.open().begin(c.ctx, name)
			closed := time.Now()
			_ = a.Close(ctx)
			if h.Context().Err() == nil {
				c.errorf("the lock's context is alive after Close")
			}
			c.release(p.freedBy(closed))
		},
	},
	{
		name: "Close/EndedContext", promise: 15,
		says: "Close with a ctx that has ended still ends the Locker.",
		run: func(c *C) {
			name := c.name("x")
			c.open().acquire(name)
			l := c.open()
			p := l.queue(name)
			ended, cancel := context.WithCancel(c.ctx)
			cancel()
			_ = l.Close(ended)
			p.returned(soon)
			if !errors.Is(p.err, locker.ErrClosed) {
				c.errorf("a waiter got %v, want ErrClosed", p.err)
			}
			if _, err := l.try(c.name("y")); !errors.Is(err, locker.ErrClosed) {
				c.errorf("TryAcquire after Close: %v", err)
			}
		},
	},
}

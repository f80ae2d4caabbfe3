package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/seed80cd6120/locker"
)

var reentryCases = []*testCase{
	{
		name: "Reentry/Held", promise: 13, needs: madeByLocker,
		says: "An acquisition whose ctx comes from a lock of the same name returns ErrHeld at once: by Context, Within or Do, and also nested.",
		run: func(c *C) {
			l, name, inner := c.openLocker(), c.name("x"), c.name("inner")
			type key struct{}
			h := l.lock(name)
			nested, err := l.locker.Acquire(h.Context(), inner)
			if err != nil {
				c.fatalf("another name: %v", err)
			}
			derived, cancel := context.WithCancel(context.WithValue(h.Context(), key{}, 1))
			defer cancel()
			for what, ctx := range map[string]context.Context{
				"Context": h.Context(), "Within": c.b.api.within(h, c.ctx), "a derived context": derived,
				"a lock of another name": nested.Context(), "Within of a lock of another name": c.b.api.within(nested, h.Context()),
			} {
				c.isHeld(l, ctx, name, what)
			}
			c.isHeld(l, nested.Context(), inner, "the inner lock")
			c.release(nested)
			c.release(h)
			err = c.b.api.do(c.ctx, l.locker, name, func(ctx context.Context, _ *locker.Lock) error {
				c.isHeld(l, ctx, name, "Do")
				return c.b.api.do(ctx, l.locker, inner, func(ctx context.Context, _ *locker.Lock) error {
					c.isHeld(l, ctx, name, "Do in Do")
					return nil
				})
			})
			if err != nil {
				c.errorf("Do: %v", err)
			}
			c.exorcised(name, inner)
		},
	},
	{
		name: "Reentry/NotOthers", promise: 10, needs: madeByLocker,
		says: "An acquisition waits as ever if its ctx comes from a lock of another name, of another Locker, or from one that has ended.",
		run: func(c *C) {
			a, b, name := c.openLocker(), c.openLocker(), c.name("x")
			h := a.lock(name)
			p := b.begin(h.Context(), name)
			c.settle()
			if p.finished() {
				c.errorf("another Locker did not wait: %v", p.err)
			}
			other, err := a.locker.Acquire(h.Context(), c.name("y"))
			if err != nil {
				c.fatalf("another name: %v", err)
			}
			c.release(other)
			ended, err := a.locker.Acquire(c.ctx, c.name("z"))
			if err != nil {
				c.fatalf("acquire: %v", err)
			}
			ctx := context.WithoutCancel(ended.Context())
			c.release(ended)
			again, err := a.locker.Acquire(ctx, ended.Name())
			if err != nil {
				c.fatalf("the lock that ctx comes from has been released: %v", err)
			}
			c.release(again)
			c.release(h)
			p.returned(soon)
			if p.err == nil {
				c.release(p.lock)
			}
		},
	},
	{
		name: "Reentry/Joins", promise: 10, needs: madeByLocker,
		says: "With Reenter an acquisition joins the lock that its ctx comes from: with the same token, and the name is free when the first who took it lets go.",
		run: func(c *C) {
			l, other, name := c.openLocker(), c.open(), c.name("x")
			h := l.lock(name)
			join := func(ctx context.Context) *locker.Lock {
				inner, err := l.locker.Acquire(ctx, name, locker.Reenter())
				if err != nil {
					c.fatalf("Reenter: %v", err)
				}
				if inner.Token() != h.Token() {
					c.errorf("token %d joined %d", inner.Token(), h.Token())
				}
				return inner
			}
			first := join(h.Context())
			c.release(first)
			c.alive(h, "when one that had joined was released")
			other.taken(name)
			tried, err := l.locker.TryAcquire(h.Context(), name, locker.Reenter())
			if err != nil {
				c.fatalf("TryAcquire with Reenter: %v", err)
			}
			third := join(tried.Context())
			p := other.queue(name)
			c.release(h)
			c.release(p.held(soon))
			for _, inner := range []*locker.Lock{tried, third} {
				if !errors.Is(cause(inner), locker.ErrReleased) {
					c.errorf("one that had joined a lock that was released: %v", cause(inner))
				}
				c.release(inner)
			}
			c.exorcised(name)
		},
	},
	{
		name: "Reentry/NotMore", promise: 1, needs: madeByLocker | shareable,
		says: "A lock that is more than the one it would join is refused with ErrHeld.",
		run: func(c *C) {
			l, name := c.openLocker(), c.name("x")
			h := l.lock(name, locker.Shared())
			if _, err := l.locker.TryAcquire(h.Context(), name, locker.Reenter()); !errors.Is(err, locker.ErrHeld) {
				c.errorf("exclusive in shared: %v", err)
			}
			inner, err := l.locker.Acquire(h.Context(), name, locker.Reenter(), locker.Shared())
			if err != nil {
				c.fatalf("shared in shared: %v", err)
			}
			c.release(inner)
			c.release(h)
		},
	},
	{
		name: "Reentry/Lost", promise: 3, needs: madeByLocker,
		says: "A lock that joined another is lost with it.",
		run: func(c *C) {
			l, name := c.openLocker(), c.name("x")
			h := l.lock(name, locker.WithLease(c.b.TTL))
			begun := time.Now()
			inner, err := l.locker.Acquire(h.Context(), name, locker.Reenter())
			switch {
			case err != nil && c.late.Worst(begun) > c.b.TTL/6:
				c.tooSlow() // the lease may have been over before
				return
			case err != nil:
				c.fatalf("Reenter: %v", err)
			}
			w := c.watch(inner)
			p := c.open().queue(name)
			next := p.held(c.b.TTL + soon)
			w.before(p.stamp)
			c.releaseLost(inner)
			c.releaseLost(h)
			c.release(next)
		},
	},
}

// isHeld fails the case unless an acquisition with ctx is refused with ErrHeld at once.
func (c *C) isHeld(l *client, ctx context.Context, name, what string) {
	c.tb.Helper()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	for _, acquire := range []func(context.Context, string, ...locker.AcquireOption) (*locker.Lock, error){l.locker.Acquire, l.locker.TryAcquire} {
		h, err := acquire(ctx, name)
		if err == nil {
			_ = h.Release(c.ctx)
		}
		if !errors.Is(err, locker.ErrHeld) || !errors.Is(err, locker.ErrNotAcquired) {
			c.errorf("acquired with a ctx that comes from %s: %v, want ErrHeld", what, err)
		}
	}
}

package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/seed80cd6120/locker"
)

var reentryCases = []*testCase{
	newCase("Reentry/Held", 13).needing(madeByLocker).proves(
		"An acquisition whose ctx comes from a lock of the same name returns ErrHeld at once: by Context, Within or Do, and also nested.",
		func(c *C) {
			l, inner := c.openLocker(), c.name("inner")
			type key struct{}
			h := l.lock(c.x)
			nested, err := l.locker.Acquire(h.Context(), inner)
			c.must(err, "another name")
			derived, cancel := context.WithCancel(context.WithValue(h.Context(), key{}, 1))
			defer cancel()
			for what, ctx := range map[string]context.Context{
				"Context":                          h.Context(),
				"Within":                           c.b.api.within(h, c.ctx),
				"a derived context":                derived,
				"a lock of another name":           nested.Context(),
				"Within of a lock of another name": c.b.api.within(nested, h.Context()),
			} {
				c.isHeld(l, ctx, c.x, what)
			}
			c.isHeld(l, nested.Context(), inner, "the inner lock")
			c.release(nested, h)
			err = c.b.api.do(c.ctx, l.locker, c.x, func(ctx context.Context, _ *locker.Lock) error {
				c.isHeld(l, ctx, c.x, "Do")
				return c.b.api.do(ctx, l.locker, inner, func(ctx context.Context, _ *locker.Lock) error {
					c.isHeld(l, ctx, c.x, "Do in Do")
					return nil
				})
			})
			c.expect(err, nil, "Do")
			c.leftFree(c.x, inner)
		}),
	newCase("Reentry/NotOthers", 10).needing(madeByLocker).proves(
		"An acquisition waits as ever if its ctx comes from a lock of another name, of another Locker, or from one that has ended.",
		func(c *C) {
			a, b := c.openLocker(), c.openLocker()
			h := a.lock(c.x)
			p := b.queueUntil(h.Context(), c.x)
			p.waits("another Locker")
			other, err := a.locker.Acquire(h.Context(), c.name("y"))
			c.must(err, "another name")
			c.release(other)
			ended := a.lock(c.name("z"))
			ctx := context.WithoutCancel(ended.Context())
			c.release(ended)
			again, err := a.locker.Acquire(ctx, ended.Name())
			c.must(err, "the lock that ctx comes from has been released")
			c.release(again, h)
			p.returned(soon)
			if p.err == nil {
				c.release(p.lock)
			}
		}),
	newCase("Reentry/Joins", 10).needing(madeByLocker).proves(
		"With Reenter an acquisition joins the lock that its ctx comes from: with the same token, and the name is free when the first who took it lets go.",
		func(c *C) {
			l, other := c.openLocker(), c.open()
			h := l.lock(c.x)
			join := func(ctx context.Context) *locker.Lock {
				inner, err := l.locker.Acquire(ctx, c.x, locker.Reenter())
				c.must(err, "Reenter")
				if inner.Token() != h.Token() {
					c.errorf("token %d joined %d", inner.Token(), h.Token())
				}
				return inner
			}
			c.release(join(h.Context()))
			c.alive(h, "when one that had joined was released")
			other.taken(c.x)
			tried, err := l.locker.TryAcquire(h.Context(), c.x, locker.Reenter())
			c.must(err, "TryAcquire with Reenter")
			third := join(tried.Context())
			p := other.queue(c.x)
			c.release(h)
			c.release(p.held(soon))
			for _, inner := range []Holding{tried, third} {
				c.expect(cause(inner), locker.ErrReleased, "one that had joined a lock that was released")
				c.release(inner)
			}
			c.leftFree(c.x)
		}),
	newCase("Reentry/NotMore", 1).needing(madeByLocker|shareable).proves(
		"A lock that is more than the one it would join is refused with ErrHeld.",
		func(c *C) {
			l := c.openLocker()
			h := l.lock(c.x, locker.Shared())
			c.refused(locker.ErrHeld, h.Context(), l.TryAcquire, c.x, locker.Reenter())
			inner, err := l.locker.Acquire(h.Context(), c.x, locker.Reenter(), locker.Shared())
			c.must(err, "shared in shared")
			c.release(inner, h)
		}),
	newCase("Reentry/Lost", 3).needing(madeByLocker).proves(
		"A lock that joined another is lost with it.",
		func(c *C) {
			l := c.openLocker()
			h := l.lock(c.x, locker.WithLease(c.b.TTL))
			inner, err := l.locker.Acquire(h.Context(), c.x, locker.Reenter())
			if err != nil && c.lostByRight(h) {
				c.tooSlow() // the lease was over before
				return
			}
			c.must(err, "Reenter")
			w := c.watch(inner)
			p := c.waiter()
			next := p.held(c.b.TTL + soon)
			w.before(p.stamp)
			c.releaseLost(inner)
			c.releaseLost(h)
			c.release(next)
		}),
}

// isHeld fails the case unless an acquisition with ctx is refused with ErrHeld at once.
func (c *C) isHeld(l *client, ctx context.Context, name, what string) {
	c.tb.Helper()
	begun := time.Now()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	for _, acquire := range l.ways() {
		h, err := acquire(ctx, name)
		if err == nil {
			_ = h.Release(c.ctx)
		}
		if !errors.Is(err, locker.ErrHeld) || !errors.Is(err, locker.ErrNotAcquired) {
			c.unlessLate(begun, time.Second, "acquired with a ctx that comes from %s: %v, want ErrHeld", what, err)
		}
	}
}

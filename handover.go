package locker

import (
	"context"
	"math"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// spare returns how many tokens a lease could use for being handed over.
func (c *core) spare(a acquisition) int32 {
	several := a.limit != driver.All && driver.Fits(int64(a.weight), a.weight, a.limit) // permits that do not wait here
	if c.cfg.HandOver <= 0 || a.lease > 0 || a.atLeast > 0 || several {
		return 0
	}
	return int32(min(max(c.cfg.HandOver/time.Microsecond, 1), math.MaxInt32))
}

// openWindow makes le the lease that is handed over in the process; c.mu is held.
func (c *core) openWindow(q *localQueue, le *lease) {
	q.closeWindow()
	q.window = le
}

// windowFor reports whether a has to wait for the lease in the window, or may share it: not past those
// at the server with whom it could not hold the name; c.mu is held.
func (c *core) windowFor(q *localQueue, a acquisition) bool {
	return q.window != nil && c.spare(a) > 0 && a.weight == q.window.claim.Weight && a.limit == q.window.claim.Limit &&
		a.owner == q.window.claim.Owner && driver.Fits(q.asked, a.weight, a.limit) &&
		c.clock.Now() < q.window.window
}

// closeWindow ends the window; core.mu is held.
func (q *localQueue) closeWindow() {
	q.window = nil
	if q.timer != nil {
		q.timer.Stop()
		q.timer = nil
	}
}

// armWindow sees to it that those who wait go to the server when the window is over; c.mu is
// held.
func (c *core) armWindow(name string, q *localQueue) {
	if q.window == nil || q.timer != nil || len(q.waiting) == 0 {
		return
	}
	le := q.window
	q.timer = time.AfterFunc(max(le.window.Sub(c.clock.Now()), 0), func() { c.closeWindow(le) })
}

// closeWindow ends the window of le, if it is open, and lets those who waited for it go to
// the server.
func (c *core) closeWindow(le *lease) {
	if !le.passes {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if q := c.queues[le.claim.Name]; q != nil && q.window == le {
		q.closeWindow()
		c.advance(le.claim.Name, q)
	}
}

// share returns a further Lock on a shared lease, or nil if it is no longer handed over.
func (le *lease) share(ctx context.Context) *Lock {
	le.mu.Lock()
	defer le.mu.Unlock()
	if le.state != held || !le.passable() {
		return nil
	}
	return le.pass(ctx)
}

// passable reports whether the lease, which is in its window, may have one more Lock: there
// are tokens and half of its time left; le.mu is held.
func (le *lease) passable() bool {
	now := le.core.clock.Now()
	return le.passes && le.weight == le.claim.Weight &&
		(le.token < le.lastToken || !le.core.traits.Fenced) &&
		le.until().Sub(now) > le.claim.TTL/2
}

// pass adds a Lock with the next token; le.mu is held.
func (le *lease) pass(ctx context.Context) *Lock {
	if le.core.traits.Fenced {
		le.token++
	}
	l := &Lock{lease: le, caller: ctx, token: le.token}
	le.locks = append(le.locks, l)
	return l
}

// handOver gives le, whose last Lock has ended, to the first goroutine of q, if there is one and
// le may be handed over to it. It reports whether it did; core.mu and le.mu are held.
func (c *core) handOver(q *localQueue, le *lease) bool {
	if len(q.waiting) == 0 || !c.windowFor(q, q.waiting[0].a) || !le.passable() {
		return false
	}
	w := q.pop()
	w.lock = le.pass(w.ctx)
	close(w.ready)
	return true
}

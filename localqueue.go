package locker

import (
	"context"
	"slices"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// localQueue is the queue of the goroutines of this Locker that want one name. Those who
// wait at the server are as many as could be granted together, by the one rule; the others
// wait here. So a process costs the server one waiter for an exclusive lock, however many
// goroutines want it, and readers go there side by side.
type localQueue struct {
	asked   int64 // weight of the claims at the server that have not been granted
	waiting []*localWaiter
	weight  int64       // of those waiting
	window  *lease      // granted just now and handed over in the process; nil if there is none
	timer   *time.Timer // closes the window, once somebody waits for that
}

// localWaiter is a goroutine in the queue.
type localWaiter struct {
	ctx   context.Context
	a     acquisition
	ready chan struct{} // closed when it is no longer in the queue
	lock  *Lock         // handed over to it; nil if it may ask the server
}

// join waits until the caller may ask the server for name, or returns the lock that was
// handed over to it. In the first case the caller has to call leave afterwards.
func (c *core) join(ctx context.Context, name string, a acquisition) (*Lock, error) {
	c.mu.Lock()
	q := c.queues[name]
	if q == nil {
		q = &localQueue{}
		c.queues[name] = q
	}
	if len(q.waiting) == 0 {
		if lock, ok := c.next(ctx, q, a); ok {
			c.mu.Unlock()
			return lock, nil
		}
	}
	w := &localWaiter{ctx: ctx, a: a, ready: make(chan struct{})}
	q.waiting = append(q.waiting, w)
	q.weight += int64(a.weight)
	c.armWindow(name, q)
	c.mu.Unlock()

	var err error
	select {
	case <-w.ready:
		return w.lock, nil
	case <-ctx.Done():
		err = ended(ctx, nil)
	case <-c.open.Done():
		err = ErrClosed
	}
	if !c.giveUp(name, w) { // it came at the same moment
		if w.lock == nil {
			c.leave(name, a, nil)
		} else {
			go func() { _ = safely(func() error { return w.lock.release(ctx, ErrReleased) }) }()
		}
	}
	return nil, err
}

// next lets the first of q go: with a Lock on the lease in the window, if that can be shared,
// or to the server. It returns false if the first has to wait; c.mu is held.
func (c *core) next(ctx context.Context, q *localQueue, a acquisition) (lock *Lock, ok bool) {
	if c.windowFor(q, a) {
		if !isShared(a) {
			return nil, false // it is handed over when it is released
		}
		if lock = q.window.share(ctx); lock != nil {
			return lock, true
		}
	}
	if !driver.Fits(q.asked, a.weight, a.limit) {
		return nil, false
	}
	q.asked += int64(a.weight)
	return nil, true
}

// advance lets as many of q go as may; c.mu is held.
func (c *core) advance(name string, q *localQueue) {
	for len(q.waiting) > 0 {
		lock, ok := c.next(q.waiting[0].ctx, q, q.waiting[0].a)
		if !ok {
			break
		}
		w := q.pop()
		w.lock = lock
		close(w.ready)
	}
	c.armWindow(name, q)
	if q.asked == 0 && len(q.waiting) == 0 && q.window == nil && c.queues[name] == q {
		delete(c.queues, name)
	}
}

// pop takes the first waiter out.
func (q *localQueue) pop() *localWaiter {
	w := q.waiting[0]
	q.waiting[0] = nil
	q.waiting = q.waiting[1:]
	q.weight -= int64(w.a.weight)
	return w
}

// leave ends the caller's stay at the server, with what was granted there, or nil.
func (c *core) leave(name string, a acquisition, granted *lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queues[name]
	q.asked -= int64(a.weight)
	if granted != nil && granted.passes && granted.isHeld() {
		c.openWindow(q, granted)
	}
	c.advance(name, q)
}

// giveUp takes w out of the queue; false means that it was let go before.
func (c *core) giveUp(name string, w *localWaiter) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queues[name]
	if q == nil {
		return false
	}
	i := slices.Index(q.waiting, w)
	if i < 0 {
		return false
	}
	q.waiting = slices.Delete(q.waiting, i, i+1)
	q.weight -= int64(w.a.weight)
	c.advance(name, q) // it may have kept others waiting
	return true
}

// roomBehind reports whether a claim could be granted behind all goroutines of this Locker
// that wait for name, here or at the server.
func (c *core) roomBehind(name string, a acquisition) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queues[name]
	return q == nil || driver.Fits(q.asked+q.weight, a.weight, a.limit)
}

// isShared reports whether a is of a kind that everybody with the same can hold together.
func isShared(a acquisition) bool { return a.weight == 1 && a.limit == driver.All }

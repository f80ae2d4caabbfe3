package conformance

import (
	"context"
	"sync"
	"time"

	"github.com/seed80cd6120/locker"
)

// pending is an Acquire under way.
type pending struct {
	c      *C
	name   string
	done   chan struct{}
	cancel context.CancelFunc // of its context
	begun  time.Time
	lock   Holding
	err    error
	stamp  int64 // taken after it had returned
}

// begin starts an Acquire and returns when the call has begun to wait for
// something, or a little later where that cannot be seen.
func (cl *client) begin(ctx context.Context, name string, opts ...locker.AcquireOption) *pending {
	ctx, cancel := context.WithCancel(ctx)
	p := &pending{c: cl.c, name: name, done: make(chan struct{}), cancel: cancel, begun: time.Now()}
	seen := &seenContext{Context: ctx, looked: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.lock, p.err = cl.Acquire(seen, name, opts...)
		p.stamp = stamp()
	}()
	select {
	case <-seen.looked:
	case <-p.done:
	case <-time.After(200 * time.Millisecond):
	}
	return p
}

// seenContext tells when somebody first waits for it.
type seenContext struct {
	context.Context
	once   sync.Once
	looked chan struct{}
}

func (s *seenContext) Done() <-chan struct{} {
	s.once.Do(func() { close(s.looked) })
	return s.Context.Done()
}

// queue is begin, and then time for the call to get to the server and queue there.
func (cl *client) queue(name string, opts ...locker.AcquireOption) *pending {
	return cl.queueUntil(cl.c.ctx, name, opts...)
}

// queueUntil is queue with a context of its own.
func (cl *client) queueUntil(ctx context.Context, name string, opts ...locker.AcquireOption) *pending {
	p := cl.begin(ctx, name, opts...)
	cl.c.settle()
	return p
}

// queueMany is queue n times.
func (cl *client) queueMany(n int, name string, opts ...locker.AcquireOption) (all []*pending) {
	for range n {
		all = append(all, cl.begin(cl.c.ctx, name, opts...))
	}
	cl.c.settle()
	return all
}

func (p *pending) finished() bool { return isClosed(p.done) }

// waits fails the case if the call has returned, for what says in which situation.
func (p *pending) waits(what string) {
	p.c.tb.Helper()
	if p.finished() {
		p.c.fatalf("%s: Acquire of %q did not wait: %v", what, p.name, p.err)
	}
}

// held returns the lock, which has to come within d.
func (p *pending) held(d time.Duration) Holding {
	p.c.tb.Helper()
	p.returned(d)
	p.c.granted(p.err, p.name, p.begun)
	return p.lock
}

// returned waits until the call has come back, whatever it says.
func (p *pending) returned(d time.Duration) {
	p.c.tb.Helper()
	start := time.Now()
	if !p.c.closes(p.done, d) {
		p.c.fatalf("acquire %q has not returned after %v", p.name, time.Since(start).Round(time.Millisecond))
	}
}

// fails waits until the call has come back, which must be with an error: want, or any if that
// is nil.
func (p *pending) fails(want error) {
	p.c.tb.Helper()
	p.returned(soon)
	switch {
	case p.err == nil:
		p.c.fatalf("got a lock on %q, which cannot be had", p.name)
	case want != nil:
		p.c.expect(p.err, want, "a waiter for %q", p.name)
	}
}

// next waits for whichever comes first.
func (c *C) next(waiting []*pending) Holding {
	c.tb.Helper()
	var got Holding
	if !c.within(longTTL+soon, func() bool {
		for i, p := range waiting {
			if p != nil && p.finished() {
				waiting[i] = nil
				got = p.held(0)
				return true
			}
		}
		return false
	}) {
		c.fatalf("no waiter got the lock")
	}
	return got
}

// turns has n of those who wait hold and release the lock, whichever comes first.
func (c *C) turns(n int, waiting []*pending) {
	c.tb.Helper()
	for range n {
		c.release(c.next(waiting))
	}
}

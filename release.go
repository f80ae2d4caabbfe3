package locker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// releaseBound is how long a release is tried before it becomes one of the
// clean-ups that go on in the background. Release itself returns by its context,
// if that ends before.
const releaseBound = 5 * time.Second

// ending is the release of a lock, shared by all callers of Release.
type ending struct {
	until time.Time // how long it is tried
	done  chan struct{}
	err   error
}

// Release frees the lock. It frees only this holding, never that of a successor,
// and calling it again is harmless.
//
// After a loss it returns ErrLost. When ctx ends before the server has answered it
// returns ctx's error and goes on in the background; that also holds for a ctx that
// has ended before, so that a deferred Release works after the work was
// cancelled. In any case it returns after five seconds, or after the TTL if that
// is shorter.
func (l *Lock) Release(ctx context.Context) error {
	e, tried, err := l.end(ctx, ErrReleased)
	switch {
	case err != nil:
	case tried != nil && ctx.Err() != nil:
		err = ended(ctx, tried) // it has had its time
	default:
		err = e.wait(ctx)
	}
	if err != nil {
		return l.core.fail("release", l.Name(), err)
	}
	return nil
}

func (e *ending) wait(ctx context.Context) error {
	select {
	case <-e.done:
		return e.err
	case <-ctx.Done():
	}
	patience := time.NewTimer(grace)
	defer patience.Stop()
	select {
	case <-e.done:
		return e.err
	case <-patience.C:
		return ended(ctx, nil)
	}
}

// end begins the release, once, with cause for the lock's context. Where the
// driver is prompt it is asked at once, for as long as ctx allows; tried is the
// error of that, if the release has to go on in the background.
func (l *Lock) end(ctx context.Context, cause error) (e *ending, tried, err error) {
	l.look()
	l.mu.Lock()
	switch l.state {
	case released:
		l.mu.Unlock()
		return l.ending, nil, nil
	case lost:
		l.mu.Unlock()
		return nil, nil, context.Cause(l.ctx.Context)
	}
	l.become(released, cause)
	e = &ending{done: make(chan struct{}), until: time.Now().Add(min(releaseBound, l.claim.TTL))}
	l.ending = e
	l.mu.Unlock()

	l.alarm.Stop()
	c := l.core
	c.keeper.remove(l)
	c.more()
	if c.traits.Prompt && ctx.Err() == nil {
		tried = l.releaseHere(ctx, e)
		if e.settle(tried, nil) {
			c.done()
			return e, nil, nil
		}
	}
	go l.release(e, tried)
	return e, tried, nil
}

// releaseHere asks a prompt driver once, on the caller's goroutine.
func (l *Lock) releaseHere(ctx context.Context, e *ending) error {
	c := l.core
	if c.traits.TryFirst {
		return c.driver.Release(ctx, l.claim)
	}
	call := &callContext{Context: ctx, with: c.alive, until: e.until}
	defer call.end()
	return c.driver.Release(call, l.claim)
}

// release asks the server until it answers or the time is over. failed is what
// came of an earlier request, if there was one.
func (l *Lock) release(e *ending, failed error) {
	c := l.core
	defer c.done()
	ctx, cancel := context.WithDeadline(c.alive, e.until)
	defer cancel()
	pause := newBackoff()
	if failed != nil {
		pause.sleep(ctx)
	}
	for ; ; pause.sleep(ctx) {
		err := c.driver.Release(ctx, l.claim)
		if e.settle(err, failed) {
			return
		}
		failed = err
		if ctx.Err() != nil {
			e.err = fmt.Errorf("%w: %w", errUnconfirmed, failed)
			c.undo(l.claim)
			close(e.done)
			return
		}
	}
}

// settle ends the release if err is the last word of the server. failed is the
// error of an earlier request: that one may have done it, its reply lost.
func (e *ending) settle(err, failed error) bool {
	gone := errors.Is(err, driver.ErrGone)
	if err != nil && !gone {
		return false
	}
	if gone && failed == nil {
		e.err = fmt.Errorf("%w: %w", ErrLost, err)
	}
	close(e.done)
	return true
}

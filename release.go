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

// Release frees the lock. It frees only this holding, never that of a successor,
// and calling it again is harmless.
//
// After a loss it returns ErrLost. When ctx ends before the server has answered it
// returns ctx's error and goes on in the background; that also holds for a ctx that
// has ended before, so that a deferred Release works after the work was
// cancelled. In any case it returns after five seconds, or after the TTL if that
// is shorter.
func (l *Lock) Release(ctx context.Context) error {
	tried, err := l.end(ctx, ErrReleased)
	switch {
	case err != nil:
	case tried != nil && ctx.Err() != nil:
		err = ended(ctx, tried) // it has had its time
	default:
		err = l.ending.wait(ctx)
	}
	if err != nil {
		return l.core.fail("release", l.Name(), err)
	}
	return nil
}

// end begins the release, once, with cause for the lock's context. Where the
// driver is prompt it is asked at once, for as long as ctx allows; tried is the
// error of that, if the release has to go on in the background.
func (l *Lock) end(ctx context.Context, cause error) (tried, err error) {
	l.look()
	l.mu.Lock()
	switch l.state {
	case released:
		l.mu.Unlock()
		return nil, nil
	case lost:
		l.mu.Unlock()
		return nil, l.cause
	}
	l.become(released, cause)
	l.mu.Unlock()

	c := l.core
	c.keeper.remove(l)
	c.more()
	until := time.Now().Add(min(releaseBound, l.claim.TTL))
	if c.traits.Prompt && ctx.Err() == nil {
		tried = l.releaseHere(ctx, until)
		if l.settle(tried, nil) {
			c.done()
			return nil, nil
		}
	}
	go l.release(until, tried)
	return tried, nil
}

// releaseHere asks a prompt driver once, on the caller's goroutine.
func (l *Lock) releaseHere(ctx context.Context, until time.Time) error {
	c := l.core
	call := &callContext{Context: ctx, with: c.alive, until: until}
	defer call.end()
	return c.relay(call, &l.claim)
}

// release asks the server until it answers or the time is over. failed is what
// came of an earlier request, if there was one.
func (l *Lock) release(until time.Time, failed error) {
	c := l.core
	defer c.done()
	ctx, cancel := context.WithDeadline(c.alive, until)
	defer cancel()
	pause := newBackoff()
	if failed != nil {
		pause.sleep(ctx)
	}
	for ; ; pause.sleep(ctx) {
		err := c.driver.Release(ctx, &l.claim)
		if l.settle(err, failed) {
			return
		}
		failed = err
		if ctx.Err() != nil {
			c.undo(&l.claim)
			l.ending.finish(fmt.Errorf("%w: %w", errUnconfirmed, failed))
			return
		}
	}
}

// settle ends the release if err is the last word of the server. failed is the
// error of an earlier request: that one may have done it, its reply lost.
func (l *Lock) settle(err, failed error) bool {
	switch gone := errors.Is(err, driver.ErrGone); {
	case gone && failed == nil:
		l.ending.finish(fmt.Errorf("%w: %w", ErrLost, err))
	case gone || err == nil:
		l.ending.finish(nil)
	default:
		return false
	}
	return true
}

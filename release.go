package locker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// releaseBound is how long a release is tried before it becomes one of the
// cleanups that go on in the background. Release itself returns by its context,
// if that ends before.
const releaseBound = 5 * time.Second

var (
	errUnconfirmed = errors.New("release not confirmed")
	errPanic       = errors.New("the driver panicked")
)

// Release frees the lock. It frees only this holding, never that of a successor,
// and calling it again is harmless.
//
// After a loss it returns ErrLost. When ctx ends before the server has answered it
// returns ctx's error and goes on in the background; that also holds for a ctx that
// has ended before, so that a deferred Release works after the work was
// cancelled. In any case it returns after five seconds, or after the TTL if that
// is shorter.
func (l *Lock) Release(ctx context.Context) error {
	c := l.lease.core
	var done func(error)
	if o := c.cfg.Observer; o != nil && o.Releasing != nil && l.held() {
		ctx, done = o.Releasing(ctx, l)
	}
	err := l.release(ctx, ErrReleased)
	if err != nil {
		err = c.fail("release", l.Name(), err)
	}
	if done != nil {
		done(err)
	}
	return err
}

// held reports whether l has not ended.
func (l *Lock) held() bool {
	le := l.lease
	le.mu.Lock()
	defer le.mu.Unlock()
	return l.cause == nil
}

// release ends l with cause and, if it is the last of its lease, asks the server.
func (l *Lock) release(ctx context.Context, cause error) error {
	le := l.lease
	le.look()
	if l.end(cause) {
		le.free(ctx)
	}
	frees, why := l.outcome()
	switch {
	case frees:
		err, over := le.freed.result()
		if !over {
			bounded, cancel := context.WithTimeoutCause(ctx, min(releaseBound, le.claim.TTL), errUnconfirmed)
			defer cancel()
			err = le.freed.wait(bounded) // also if the driver ignores its context
			if err != nil && bounded.Err() != nil && ctx.Err() == nil {
				if err, over = le.freed.result(); !over {
					err = unconfirmed(err)
				}
			}
		}
		if ctx.Err() != nil && errors.Is(err, errUnconfirmed) && !errors.Is(err, ctx.Err()) {
			err = ended(ctx, err) // the server was given up meanwhile
		}
		return err
	case errors.Is(why, ErrLost):
		return why
	}
	return nil
}

// lost returns the error that says that l, which was released, was lost, as far as is known; nil if it was not. The error of its
// release may also say that another lock was lost, of whose context the caller's was made.
func (l *Lock) lost() error {
	frees, why := l.outcome()
	if frees {
		if err, over := l.lease.freed.result(); over {
			why = err
		}
	}
	if !errors.Is(why, ErrLost) {
		return nil
	}
	return l.lease.core.fail("release", l.Name(), why)
}

// outcome returns why l has ended, and whether it is up to it to free the lease.
func (l *Lock) outcome() (frees bool, why error) {
	le := l.lease
	le.mu.Lock()
	defer le.mu.Unlock()
	return l.frees, l.cause
}

// end ends l with cause. If that was the last Lock of its lease, the lease is handed over, or else end
// reports that it is to be released.
func (l *Lock) end(cause error) (free bool) {
	le := l.lease
	c := le.core
	var q *localQueue
	if le.passes {
		c.mu.Lock()
		defer c.mu.Unlock()
		q = c.queues[le.claim.Name]
	}
	le.mu.Lock()
	defer le.mu.Unlock()
	if l.cause != nil || !le.remove(l, cause) {
		return false
	}
	if q != nil && q.window == le {
		if c.handOver(q, le) {
			return false
		}
		q.closeWindow()
		c.advance(le.claim.Name, q)
	}
	le.state, l.frees = ending, true
	return true
}

// free releases the lease, whose last Lock has ended. Where the driver is prompt it is asked
// at once, for as long as ctx allows; what is left to do is done in the background.
func (le *lease) free(ctx context.Context) {
	c := le.core
	c.renewer.remove(le)
	until := time.Now().Add(min(releaseBound, le.claim.TTL))
	var tried error
	if c.traits.Prompt && ctx.Err() == nil && !le.lightens() {
		over := false
		defer func() {
			if !over { // the driver panicked
				le.freed.finish(fmt.Errorf("%w: %w", errUnconfirmed, errPanic))
				c.cleanup(le)
				c.done()
			}
		}()
		call := &callContext{Context: ctx, with: c.alive, until: until}
		tried = le.askToFree(call)
		call.end()
		over = true
		if le.settle(tried, nil) {
			c.done()
			return
		}
	}
	go le.freeInBackground(until, tried)
}

// freeInBackground asks the server until it answers or the time is over. failed is what
// came of an earlier request, if there was one.
func (le *lease) freeInBackground(until time.Time, failed error) {
	c := le.core
	defer c.done()
	ctx, cancel := context.WithDeadline(c.alive, until)
	defer cancel()
	le.awaitLighten()
	var pause driver.Backoff
	if failed != nil {
		pause.Sleep(ctx)
	}
	for ; ; pause.Sleep(ctx) {
		err := safely(func() error { return le.askToFree(ctx) })
		if le.settle(err, failed) {
			return
		}
		failed = err
		if ctx.Err() != nil {
			c.cleanup(le)
			le.freed.finish(unconfirmed(failed))
			return
		}
	}
}

// unconfirmed returns the error of a release that was given up; failed is what went wrong last, nil if nothing did.
func unconfirmed(failed error) error {
	if failed == nil {
		return errUnconfirmed
	}
	return fmt.Errorf("%w: %w", errUnconfirmed, otherContext{failed})
}

// otherContext is an error in which errors.Is does not find the end of a context, because that was not the caller's.
type otherContext struct{ error }

func (e otherContext) As(target any) bool { return errors.As(e.error, target) }
func (e otherContext) Is(target error) bool {
	return target != context.DeadlineExceeded && target != context.Canceled && errors.Is(e.error, target)
}

// askToFree sends one request to free the name, or to keep it taken as AtLeast wants it.
func (le *lease) askToFree(ctx context.Context) error {
	c := le.core
	if left := le.stays(); left > 0 {
		return c.lingerer.Linger(ctx, &le.claim, left)
	}
	return c.driver.Release(ctx, &le.claim)
}

// stays returns for how long AtLeast wants the name taken, if the lease was released, or is one that is not renewed and was
// lost: its deadline is a margin before its end.
func (le *lease) stays() time.Duration {
	le.mu.Lock()
	defer le.mu.Unlock()
	if le.atLeast == 0 || le.state != ending && (le.state != lost || le.renewable()) {
		return 0
	}
	return le.atLeast - le.core.clock.Now().Sub(le.granted)
}

// settle ends the release if err is the last word of the server, or one that no repetition
// will change. failed is the error of an earlier request: that one may have done it, its
// reply lost.
func (le *lease) settle(err, failed error) bool {
	switch gone := errors.Is(err, driver.ErrGone); {
	case gone && failed == nil:
		le.freed.finish(fmt.Errorf("%w: %w", ErrLost, err))
	case gone || err == nil:
		le.freed.finish(nil)
	case errors.Is(err, driver.ErrRefused):
		le.core.cleanup(le)
		le.freed.finish(err)
	default:
		le.freed.tried(err)
		return false
	}
	return true
}

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
	done chan struct{}
	err  error
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
	e, err := l.end(ctx, ErrReleased)
	if err != nil {
		return l.core.fail("release", l.Name(), err)
	}
	if err := e.wait(ctx); err != nil {
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
// driver is prompt it is asked at once, for as long as ctx allows.
func (l *Lock) end(ctx context.Context, cause error) (*ending, error) {
	l.look()
	l.mu.Lock()
	switch l.state {
	case released:
		l.mu.Unlock()
		return l.ending, nil
	case lost:
		l.mu.Unlock()
		return nil, context.Cause(l.ctx.Context)
	}
	l.become(released, cause)
	l.ending = &ending{done: make(chan struct{})}
	l.mu.Unlock()

	l.alarm.Stop()
	c := l.core
	c.keeper.remove(l)
	c.more()
	if c.traits.Prompt && ctx.Err() == nil && c.driver.Release(ctx, l.claim) == nil {
		close(l.ending.done)
		c.done()
	} else {
		go l.release()
	}
	return l.ending, nil
}

// release asks the server until it answers or the time is over.
func (l *Lock) release() {
	c := l.core
	defer c.done()
	defer close(l.ending.done)
	ctx, cancel := context.WithTimeout(c.alive, min(releaseBound, l.claim.TTL))
	defer cancel()
	var failed error
	for pause := newBackoff(); ; pause.sleep(ctx) {
		err := c.driver.Release(ctx, l.claim)
		switch {
		case err == nil:
			return
		case errors.Is(err, driver.ErrGone) && failed == nil:
			l.ending.err = fmt.Errorf("%w: %w", ErrLost, err)
			return
		case errors.Is(err, driver.ErrGone):
			// An earlier request did it, although its reply did not come.
			return
		}
		failed = err
		if ctx.Err() != nil {
			l.ending.err = fmt.Errorf("%w: %w", errUnconfirmed, failed)
			c.undo(l.claim)
			return
		}
	}
}

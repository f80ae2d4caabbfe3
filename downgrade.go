package locker

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed80cd6120/locker/driver"
)

// Downgrade makes a shared lock of an exclusive one without letting go: those who wait for
// the same in a shared way hold it, too, from then on. The token stays. A lock that is
// shared already stays so. There is no way back: two who went it would wait for each
// other.
//
// After an error the lock may be shared already; it is still held, unless the error
// is ErrLost, and Downgrade may be called again.
func (l *Lock) Downgrade(ctx context.Context) error {
	if err := l.downgrade(ctx); err != nil {
		return l.lease.core.fail("downgrade", l.Name(), err)
	}
	return nil
}

func (l *Lock) downgrade(ctx context.Context) error {
	le := l.lease
	c := le.core
	le.look()
	le.mu.Lock()
	cause := l.cause
	if cause == nil && le.weight == driver.All && l.outer == nil && c.traits.Downgrade {
		le.weight = 1 // from now on nobody may rely on it being exclusive
	}
	weight := le.weight
	le.mu.Unlock()
	switch {
	case cause != nil:
		return cause
	case !c.traits.Downgrade || le.claim.Limit != driver.All:
		return ErrUnsupported
	case weight == driver.All:
		return fmt.Errorf("%w: only the lock that was re-entered can", ErrHeld)
	case le.claim.Weight != driver.All:
		return nil
	}
	c.closeWindow(le)
	within, end := l.within(ctx) // so that a Release does not wait for it
	defer end()
	_, err := call(within, c, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, le.lighten(ctx)
	})
	if errors.Is(err, driver.ErrGone) {
		le.lose(err) // does nothing if it was released meanwhile
	}
	le.mu.Lock()
	cause = l.cause
	le.mu.Unlock()
	switch {
	case err == nil:
		return nil
	case cause != nil:
		return cause
	case within.Err() != nil:
		return ended(within, err)
	case c.isClosing():
		return ErrClosed
	}
	return err
}

// lighten asks the driver to make the claim a shared one. It asks one thing of a claim at a
// time, and nothing once the lease has ended.
func (le *lease) lighten(ctx context.Context) error {
	for {
		le.mu.Lock()
		running := le.lightening
		switch {
		case le.state != held:
			le.mu.Unlock()
			return driver.ErrGone
		case running == nil:
			running = make(chan struct{})
			le.lightening = running
			le.mu.Unlock()
			defer func() {
				le.mu.Lock()
				le.lightening = nil
				le.mu.Unlock()
				close(running)
			}()
			return le.core.weigher.Lighten(ctx, &le.claim, 1)
		}
		le.mu.Unlock()
		select {
		case <-running:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// lightens reports whether the driver's Lighten runs.
func (le *lease) lightens() bool {
	le.mu.Lock()
	defer le.mu.Unlock()
	return le.lightening != nil
}

// awaitLighten waits until the driver's Lighten does not run. The lease has ended, so that
// it is not called again and the context of the call has ended, too.
func (le *lease) awaitLighten() {
	le.mu.Lock()
	running := le.lightening
	le.mu.Unlock()
	if running != nil {
		<-running
	}
}

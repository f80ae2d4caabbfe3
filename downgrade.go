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
		le.downgrading.Lock()
		defer le.downgrading.Unlock()
		if !le.isHeld() {
			return struct{}{}, driver.ErrGone
		}
		return struct{}{}, c.weigher.Lighten(ctx, &le.claim, 1)
	})
	switch {
	case errors.Is(err, driver.ErrGone):
		le.lose(err)
		return fmt.Errorf("%w: %w", ErrLost, err)
	case err != nil && within.Err() != nil:
		return ended(within, err)
	case err != nil && c.isClosing():
		return ErrClosed
	}
	return err
}

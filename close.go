package locker

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// errClosing is the cause of the contexts of locks that Close released.
var errClosing = fmt.Errorf("%w: %w", ErrReleased, ErrClosed)

var errUnconfirmed = errors.New("release not confirmed")

// Close ends the Locker; see Locker.
func (c *core) Close(ctx context.Context) error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	c.busy++
	c.mu.Unlock()

	c.shut()
	err := c.releaseAll(ctx)
	c.done()
	select {
	case <-c.idle:
	case <-ctx.Done():
		err = errors.Join(err, ended(ctx, nil))
	}
	c.die()
	err = errors.Join(err, c.closeDriver(ctx))
	if err != nil {
		return c.fail("close", "", err)
	}
	return nil
}

// releaseAll releases the locks held, some at a time. When ctx is over it only
// begins the releases.
func (c *core) releaseAll(ctx context.Context) error {
	locks := c.keeper.close()
	errs := make([]error, len(locks))
	slots := make(chan struct{}, cap(c.undos))
	var wg sync.WaitGroup
	for i, l := range locks {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			_, err := l.end(ctx, errClosing)
			if err != nil {
				return // lost before
			}
			select {
			case <-l.ending.waited():
				err, _ = l.ending.result()
			case <-ctx.Done():
				err = errUnconfirmed
			}
			if err != nil && !errors.Is(err, ErrLost) {
				errs[i] = fmt.Errorf("%q: %w", l.Name(), err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// closeDriver closes the driver, but does not wait for it longer than ctx.
func (c *core) closeDriver(ctx context.Context) error {
	var e ending
	go func() { e.finish(c.driver.Close(ctx)) }()
	return e.wait(ctx)
}

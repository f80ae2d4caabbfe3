package locker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// errClosing is the cause of the contexts of locks that Close released.
var errClosing = fmt.Errorf("%w: %w", ErrReleased, ErrClosed)

var (
	// errUnfinished is returned by Close when it has waited long enough.
	errUnfinished = errors.New("requests or cleanups are still under way")
	// errOpen is the cause when the driver takes too long to close.
	errOpen = errors.New("the driver does not close")
)

// logPatience is how long Close waits for a log handler that is slow.
const logPatience = time.Second

// Close ends the Locker; see Locker.
func (c *core) Close(ctx context.Context) error {
	c.busyMu.Lock()
	if c.closed {
		c.busyMu.Unlock()
		return nil
	}
	c.closed = true
	c.busy++
	c.busyMu.Unlock()

	c.shut()
	bounded, giveUp := context.WithCancel(ctx)
	defer giveUp()
	bound := releaseBound + max(releaseBound, c.cfg.TTL)
	patience := time.AfterFunc(bound, giveUp)
	defer patience.Stop()
	err := c.releaseAll(bounded, func() { patience.Reset(bound) })
	c.done()
	select {
	case <-c.idle:
	case <-bounded.Done(): // what the server has by now ends by its TTL or lease
		why := errUnfinished
		if ctx.Err() != nil {
			why = ended(ctx, nil)
		}
		err = errors.Join(err, why)
	}
	c.die()
	err = errors.Join(err, c.closeDriver(ctx))
	c.cfg.log.drain(ctx, logPatience)
	if err == nil {
		return nil
	}
	if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		err = ended(ctx, err)
	}
	return c.fail("close", "", err)
}

// releaseAll releases the leases held, some at a time, and calls answered for each that was. When ctx is over it only
// begins the releases.
func (c *core) releaseAll(ctx context.Context, answered func()) error {
	leases := c.renewer.close()
	errs := make([]error, len(leases))
	slots := make(chan struct{}, cap(c.cleanups))
	var wg sync.WaitGroup
	for i, le := range leases {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if !le.endAll(errClosing) {
				return // lost, or released by somebody else
			}
			c.closeWindow(le)
			_ = safely(func() error { le.free(ctx); return nil }) // a panic is told by result
			err := errUnconfirmed
			select {
			case <-le.freed.waited():
				err, _ = le.freed.result()
			case <-ctx.Done():
			}
			if err == nil || errors.Is(err, ErrLost) {
				answered()
			} else {
				errs[i] = fmt.Errorf("%q: %w", le.claim.Name, err)
			}
		})
	}
	wg.Wait()
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(errs) == 0 {
		return nil
	}
	return unreleased(errs)
}

// unreleased is why leases were not released.
type unreleased []error

// maxNamed is how many of them are named.
const maxNamed = 10

// Error names the first of them, and says how many there are.
func (u unreleased) Error() string {
	var named []string
	for _, err := range u[:min(len(u), maxNamed)] {
		named = append(named, err.Error())
	}
	if len(u) > maxNamed {
		named = append(named, "...")
	}
	return fmt.Sprintf("%d not released: %s", len(u), strings.Join(named, "; "))
}

// Unwrap returns them all.
func (u unreleased) Unwrap() []error { return u }

// endAll ends the Locks of a lease that is held. It reports whether there were any.
func (le *lease) endAll(cause error) bool {
	le.look()
	le.mu.Lock()
	defer le.mu.Unlock()
	if le.state != held {
		return false
	}
	le.state = ending
	for _, l := range le.locks {
		l.become(cause)
		l.frees = true
	}
	le.locks = nil
	return true
}

// closeDriver closes the driver, and then what WithOnClose names, but does not wait for them longer than ctx, or releaseBound.
func (c *core) closeDriver(ctx context.Context) error {
	bounded, cancel := context.WithTimeoutCause(ctx, releaseBound, errOpen)
	defer cancel()
	var e completion
	go func() {
		err := safely(func() error { return c.driver.Close(bounded) })
		for _, f := range c.cfg.onClose {
			err = errors.Join(err, safely(f))
		}
		e.finish(err)
	}()
	err := e.wait(bounded)
	if err != nil && ctx.Err() == nil {
		err = otherContext{err}
	}
	return err
}

package locker

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed80cd6120/locker/driver"
)

// errTooLate says that a lock was granted but lost before the caller could have
// it, so that it is as if it had not been granted.
var errTooLate = fmt.Errorf("%w before it could be used", ErrLost)

// acquire waits among the goroutines of this Locker and then at the server.
func (c *core) acquire(ctx context.Context, name string, a acquisition) (*Lock, error) {
	lock, err := c.join(ctx, name, a)
	if lock != nil || err != nil {
		return lock, err
	}
	var granted *lease
	defer func() { c.leave(name, a, granted) }()
	for pause := new(driver.Backoff); ; {
		le, err := c.attempt(ctx, name, a, true)
		if err == nil {
			granted = le
			return &le.first, nil
		}
		if !errors.Is(err, errTooLate) {
			return nil, err
		}
		c.rest(ctx, pause)
	}
}

// rest pauses, until ctx or the Locker ends.
func (c *core) rest(ctx context.Context, pause *driver.Backoff) {
	call := &callContext{Context: ctx, with: c.open}
	defer call.end()
	pause.Sleep(call)
}

// try asks the server once, unless goroutines of this Locker that wait for the name are
// ahead.
func (c *core) try(ctx context.Context, name string, a acquisition) (*Lock, error) {
	if !c.roomBehind(name, a) {
		return nil, ErrNotAcquired
	}
	le, err := c.attempt(ctx, name, a, false)
	if err != nil {
		return nil, err
	}
	return &le.first, nil
}

// attempt makes one claim and asks the driver for it. After an error nothing of the claim
// will be left on the server, as soon as the server can be reached.
func (c *core) attempt(ctx context.Context, name string, a acquisition, wait bool) (*lease, error) {
	c.renewer.start()
	le := newLease(ctx, c, name, a, wait)
	returned := false
	defer func() {
		if !returned { // the driver panicked
			le.drop()
			c.cleanup(le)
		}
	}()
	grant, left, err := le.ask(ctx)
	returned = true
	over := ctx.Err() != nil || c.isClosing()
	switch {
	case left:
		// Whoever waits for the answer takes care of it.
	case err == nil && !over && le.hold(grant):
		return le, nil
	case err == nil:
		if !over {
			err = errTooLate
		}
		c.cleanup(le)
	case errors.Is(err, driver.ErrTaken):
		err = ErrNotAcquired
	default:
		c.cleanup(le)
	}
	le.drop()
	switch {
	case ctx.Err() != nil:
		return nil, ended(ctx, err)
	case c.isClosing():
		return nil, ErrClosed
	}
	return nil, err
}

// ask calls the driver's Acquire; left means that it has not come back although ctx or the
// Locker has ended, and that the claim will be cleaned up once it has.
func (le *lease) ask(ctx context.Context) (grant driver.Grant, left bool, err error) {
	c := le.core
	if c.traits.Prompt {
		call := &callContext{Context: ctx, with: c.open}
		defer call.end()
		grant, err = c.driver.Acquire(call, &le.claim)
		return grant, false, err
	}
	return aside(ctx, c, func(ctx context.Context) (driver.Grant, error) {
		return c.driver.Acquire(ctx, &le.claim)
	}, func(_ driver.Grant, err error) {
		if !errors.Is(err, driver.ErrTaken) {
			c.cleanup(le)
		}
	})
}

package locker

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// grace is how long a call whose context has ended still waits for the driver to
// say what it was held up by. It is half of what the promise allows.
const grace = 50 * time.Millisecond

// errTooLate says that a lock was granted but lost before the caller could have
// it, so that it is as if it had not been granted.
var errTooLate = fmt.Errorf("%w before it could be used", ErrLost)

type answer struct {
	grant driver.Grant
	err   error
}

// attempt asks for the claim of a new lock. After an error nothing of it will be left on
// the server, as soon as the server can be reached.
func (c *core) attempt(ctx context.Context, lock *Lock) error {
	c.keeper.start()
	ans, late := c.ask(ctx, &lock.claim)
	over := ctx.Err() != nil || c.isClosing()
	switch {
	case late:
		// Whoever waits for the answer takes care of it.
	case ans.err == nil && !over && lock.hold(ans.grant):
		return nil
	case ans.err == nil:
		ans.err = errTooLate
		c.undo(&lock.claim)
	case errors.Is(ans.err, driver.ErrTaken):
		ans.err = ErrNotAcquired
	default:
		c.undo(&lock.claim)
	}
	lock.drop()
	switch {
	case ctx.Err() != nil:
		return ended(ctx, ans.err)
	case c.isClosing():
		return ErrClosed
	}
	return ans.err
}

// ask calls the driver's Acquire and waits for the answer, but not much longer
// than ctx and Close allow. If it came away without an answer it says late, and
// the claim is undone once the driver has come back.
func (c *core) ask(ctx context.Context, claim *driver.Claim) (ans answer, late bool) {
	if c.traits.Prompt {
		call := &callContext{Context: ctx, with: c.open}
		defer call.end()
		ans.grant, ans.err = c.driver.Acquire(call, claim)
		return ans, false
	}

	ctx, cancel := context.WithCancel(ctx)
	answers := make(chan answer, 1)
	var decided atomic.Bool // set by the first to see the other gone or ready
	c.more()
	go func() {
		defer c.done()
		defer cancel()
		grant, err := c.driver.Acquire(ctx, claim)
		answers <- answer{grant, err}
		if !decided.CompareAndSwap(false, true) && !errors.Is(err, driver.ErrTaken) {
			c.undo(claim)
		}
	}()

	select {
	case ans = <-answers:
		return ans, false
	case <-ctx.Done():
	case <-c.open.Done():
		cancel()
	}
	patience := time.NewTimer(grace)
	defer patience.Stop()
	select {
	case ans = <-answers:
		return ans, false
	case <-patience.C:
	}
	if decided.CompareAndSwap(false, true) {
		return answer{}, true
	}
	return <-answers, false
}

func (c *core) isClosing() bool { return c.open.Err() != nil }

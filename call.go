package locker

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// grace is how long a call whose context has ended still waits for the driver to
// say what it was held up by. It is half of what the promise allows.
const grace = 50 * time.Millisecond

// call makes one call of the driver, f, and returns its result, or soon after ctx or the
// Locker has ended an error. A driver that is prompt is called on the caller's goroutine.
func call[T any](ctx context.Context, c *core, f func(context.Context) (T, error)) (result T, err error) {
	if c.traits.Prompt {
		call := &callContext{Context: ctx, with: c.open}
		defer call.end()
		return f(call)
	}
	result, _, err = aside(ctx, c, f, nil)
	return result, err
}

// aside makes one call of the driver on another goroutine. If ctx or the Locker ends and f does
// not come back soon it returns with left set and no result, and late, unless it is nil, is
// called with the result once f has returned.
func aside[T any](ctx context.Context, c *core, f func(context.Context) (T, error), late func(T, error)) (result T, left bool, err error) {
	type answer struct {
		result T
		err    error
	}
	caller := ctx
	ctx, cancel := context.WithCancel(ctx)
	answers := make(chan answer, 1)
	var decided atomic.Bool // set by the first to see the other gone or ready
	c.more()
	go func() {
		defer c.done()
		defer cancel()
		var a answer
		a.err = safely(func() (err error) { a.result, err = f(ctx); return err })
		answers <- a
		if !decided.CompareAndSwap(false, true) && late != nil {
			late(a.result, a.err)
		}
	}()

	select {
	case a := <-answers:
		return a.result, false, a.err
	case <-ctx.Done():
	case <-c.open.Done():
		cancel()
	}
	patience := time.NewTimer(grace)
	defer patience.Stop()
	select {
	case a := <-answers:
		return a.result, false, a.err
	case <-patience.C:
	}
	if decided.CompareAndSwap(false, true) {
		return result, true, cmp.Or(caller.Err(), context.Canceled)
	}
	a := <-answers
	return a.result, false, a.err
}

// safely calls f on a goroutine of the core's own and makes an error of a panic.
func safely(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}

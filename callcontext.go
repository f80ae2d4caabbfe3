package locker

import (
	"context"
	"sync"
	"time"
)

// callContext is the context of one call of a driver: the caller's, which also ends
// with another, and at a deadline if there is one. What that costs, an entry with
// both contexts and a timer, is spent when somebody first waits for the end; most
// calls are answered before anybody does.
type callContext struct {
	context.Context
	with  context.Context
	until time.Time // zero if there is none

	mu      sync.Mutex
	ended   bool
	waited  context.Context // what is waited for, nil as long as nobody did
	release func()
}

// end ends the context and frees what it took.
func (c *callContext) end() {
	c.mu.Lock()
	c.ended = true
	release := c.release
	c.mu.Unlock()
	if release != nil {
		release()
	}
}

func (c *callContext) Deadline() (time.Time, bool) {
	t, ok := c.Context.Deadline()
	if c.until.IsZero() || ok && t.Before(c.until) {
		return t, ok
	}
	return c.until, true
}

func (c *callContext) Err() error {
	if err := c.Context.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ended || c.with.Err() != nil:
		return context.Canceled
	case !c.until.IsZero() && !time.Now().Before(c.until):
		return context.DeadlineExceeded // also before the timer has run
	}
	return nil
}

func (c *callContext) Done() <-chan struct{} { return c.wait().Done() }

// AfterFunc is what package context asks for, so that a context made of this one needs
// no goroutine.
func (c *callContext) AfterFunc(f func()) (stop func() bool) {
	return context.AfterFunc(c.wait(), f)
}

func (c *callContext) wait() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waited != nil {
		return c.waited
	}
	var cancel context.CancelFunc
	if c.until.IsZero() {
		c.waited, cancel = context.WithCancel(c.Context)
	} else {
		c.waited, cancel = context.WithDeadline(c.Context, c.until)
	}
	stop := context.AfterFunc(c.with, cancel)
	c.release = func() {
		stop()
		cancel()
	}
	if c.ended {
		c.release()
	}
	return c.waited
}

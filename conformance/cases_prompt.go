package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/seed80cd6120/locker"
)

// prompt makes calls whose context ends after d and fails the case unless one of
// three returns within 100 ms of that. A call that is late by nature is late every
// time; one that was unlucky on a loaded machine is not.
func (c *C) prompt(d time.Duration, cancelled bool, call func(ctx context.Context) error) {
	c.tb.Helper()
	var late, limit time.Duration
	for range 3 {
		ctx, cancel := context.WithTimeout(c.ctx, d)
		if cancelled {
			cancel()
			ctx, cancel = context.WithCancel(c.ctx)
			time.AfterFunc(d, cancel)
		}
		start := time.Now()
		err := call(ctx)
		late = time.Since(start) - d
		over := ctx.Err()
		cancel()
		if c.ctx.Err() != nil {
			break // it came back only with the case's own end
		}
		if over == nil && err != nil {
			c.errorf("an error before its context had ended: %v", err)
			return
		}
		if err == nil || !errors.Is(err, over) {
			c.errorf("%v, in which errors.Is does not find %q", err, over)
			return
		}
		if limit = 100*time.Millisecond + c.late.Slack(start); late <= limit {
			return
		}
	}
	c.errorf("returned %v after its context had ended, every time; 100 ms and this machine's delays are %v",
		late.Round(time.Millisecond), limit.Round(time.Millisecond))
}

const promptly = 250 * time.Millisecond

// promptWaiter is prompt for a client that waits for a name which another holds.
func (c *C) promptWaiter(cancelled bool) {
	c.holder(c.other...)
	l := c.open()
	c.prompt(promptly, cancelled, func(ctx context.Context) error { return onlyErr(l.Acquire(ctx, c.x, c.own...)) })
}

// promptOver is prompt for a client whose link is broken.
func (c *C) promptOver(breakIt func(Link), call func(a *client, ctx context.Context) error) {
	a := c.openWarm()
	breakIt(a.link)
	c.prompt(2*promptly, false, func(ctx context.Context) error { return call(a, ctx) })
	a.link.Heal()
}

func (c *C) acquireOver(a *client, ctx context.Context) error {
	return onlyErr(a.Acquire(ctx, c.x))
}

// tryOver tries. An error before ctx ends is as good, because a try does not wait.
func (c *C) tryOver(a *client, ctx context.Context) error {
	err := onlyErr(a.TryAcquire(ctx, c.x))
	if err != nil && ctx.Err() == nil && !errors.Is(err, locker.ErrNotAcquired) {
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

var promptCases = []*testCase{
	newCase("Prompt/Deadline", 6).proves(
		"Every call returns within 100 ms of its ctx ending, and errors.Is finds the ctx's error: a waiter whose time is over.",
		func(c *C) { c.promptWaiter(false) }),
	newCase("Prompt/Cancel", 6).of(allKinds).proves(
		"Every call returns within 100 ms of its ctx ending, and errors.Is finds the ctx's error: a waiter that is cancelled.",
		func(c *C) { c.promptWaiter(true) }),
	newCase("Prompt/QueuedGoroutine", 6).proves(
		"Every call returns within 100 ms of its ctx ending: also a goroutine that waits behind another of its process.",
		func(c *C) {
			l := c.open()
			l.acquire(c.x)
			l.queue(c.x)
			c.prompt(promptly, true, func(ctx context.Context) error { return onlyErr(l.Acquire(ctx, c.x)) })
		}),
	newCase("Prompt/FinishedContext", 6).proves(
		"A call whose ctx has already ended returns its error at once and takes nothing, even if the name is free.",
		func(c *C) {
			l := c.open()
			ended, cancel := context.WithDeadline(c.ctx, time.Now().Add(-time.Second))
			defer cancel()
			for _, acquire := range l.ways() {
				c.prompt(0, false, func(ctx context.Context) error { return onlyErr(acquire(ctx, c.x)) })
				c.refused(context.DeadlineExceeded, ended, acquire, c.x)
			}
			l.free(c.x, soon)
		}),
	newCase("Prompt/Cause", 6).proves(
		"errors.Is finds the ctx's error, and the cause given when it was cancelled.",
		func(c *C) {
			c.holder()
			why := errors.New("no longer needed")
			ctx, cancel := context.WithCancelCause(c.ctx)
			p := c.open().begin(ctx, c.x)
			cancel(why)
			p.fails(context.Canceled)
			p.fails(why)
		}),
	newCase("Prompt/AcquireOverFrozenLink", 6).needing(link).proves(
		"Every call returns within 100 ms of its ctx ending whatever the client library does: the network is silent.",
		func(c *C) { c.promptOver(func(l Link) { l.Freeze() }, c.acquireOver) }),
	newCase("Prompt/TryOverFrozenLink", 6).needing(link).proves(
		"Every call returns within 100 ms of its ctx ending whatever the client library does: TryAcquire, the network is silent.",
		func(c *C) { c.promptOver(func(l Link) { l.Freeze() }, c.tryOver) }),
	newCase("Prompt/AcquireOverCutLink", 6).needing(link).proves(
		"Every call returns within 100 ms of its ctx ending whatever the client library does: no connection can be made.",
		func(c *C) { c.promptOver(func(l Link) { l.Cut() }, c.acquireOver) }),
	newCase("Prompt/WaiterOverFrozenLink", 6).needing(link).proves(
		"Every call returns within 100 ms of its ctx ending: a waiter to whom the network falls silent while it waits.",
		func(c *C) {
			c.holder()
			a := c.openLink()
			c.prompt(2*promptly, false, func(ctx context.Context) error {
				defer time.AfterFunc(promptly, a.link.Freeze).Stop()
				return c.acquireOver(a, ctx)
			})
		}),
	newCase("Prompt/ReleaseOverFrozenLink", 6).needing(link).proves(
		"Every call returns within 100 ms of its ctx ending: Release, the network is silent.",
		func(c *C) {
			a := c.openLink()
			held := []Holding{a.acquire(c.name("x")), a.acquire(c.name("y")), a.acquire(c.name("z"))}
			a.link.Freeze()
			c.prompt(promptly, false, func(ctx context.Context) error {
				h := held[0]
				held = held[1:]
				err := h.Release(ctx)
				if errors.Is(err, locker.ErrLost) && c.lostByRight(h) {
					c.tooSlow()
					<-ctx.Done()
					return ctx.Err()
				}
				return err
			})
		}),
	newCase("Prompt/CloseOverFrozenLink", 6).needing(link).proves(
		"Every call returns within 100 ms of its ctx ending: Close, the network is silent.",
		func(c *C) {
			var cut []*client
			for range 3 {
				a := c.openLink()
				a.acquire(c.name("x"))
				a.link.Freeze()
				cut = append(cut, a)
			}
			c.prompt(promptly, false, func(ctx context.Context) error {
				a := cut[0]
				cut = cut[1:]
				if err := a.Close(ctx); err != nil {
					return err
				}
				// It may give up what it cannot reach and say nothing.
				<-ctx.Done()
				return ctx.Err()
			})
		}),
	newCase("Prompt/ServerGone", 6).needing(stop).apart().proves(
		"Every call returns within 100 ms of its ctx ending whatever the client library does: the server is away.",
		func(c *C) {
			l := c.open()
			l.free(c.x, soon)
			c.whileAway(func() {
				c.prompt(promptly, true, func(ctx context.Context) error { return c.acquireOver(l, ctx) })
			})
		}),
}

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
func (c *C) prompt(what string, d time.Duration, cancelled bool, call func(ctx context.Context) error) {
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
			c.errorf("%s: an error before its context had ended: %v", what, err)
			return
		}
		if err == nil || !errors.Is(err, over) {
			c.errorf("%s: %v, in which errors.Is does not find %q", what, err, over)
			return
		}
		if limit = 100*time.Millisecond + c.late.Slack(start); late <= limit {
			return
		}
	}
	c.errorf("%s returned %v after its context had ended, every time; 100 ms and this machine's delays are %v",
		what, late.Round(time.Millisecond), limit.Round(time.Millisecond))
}

// onlyErr leaves out the lock of an acquisition that has to fail.
func onlyErr(h Holding, err error) error { return err }

const promptly = 250 * time.Millisecond

var promptCases = []*testCase{
	{
		name: "Prompt/Deadline", promise: 6,
		says: "Every call returns within 100 ms of its ctx ending, and errors.Is finds the ctx's error: a waiter whose time is over.",
		run: func(c *C) {
			name := c.name("x")
			c.open().acquire(name)
			l := c.open()
			c.prompt("Acquire", promptly, false, func(ctx context.Context) error { return onlyErr(l.Acquire(ctx, name)) })
		},
	},
	{
		name: "Prompt/Cancel", promise: 6, kinds: allKinds,
		says: "Every call returns within 100 ms of its ctx ending, and errors.Is finds the ctx's error: a waiter that is cancelled.",
		run: func(c *C) {
			name := c.name("x")
			c.open().acquire(name, c.other...)
			l := c.open()
			c.prompt("Acquire", promptly, true, func(ctx context.Context) error { return onlyErr(l.Acquire(ctx, name, c.own...)) })
		},
	},
	{
		name: "Prompt/QueuedGoroutine", promise: 6,
		says: "Every call returns within 100 ms of its ctx ending: also a goroutine that waits behind another of its process.",
		run: func(c *C) {
			name := c.name("x")
			l := c.open()
			l.acquire(name)
			l.queue(name)
			c.prompt("Acquire", promptly, true, func(ctx context.Context) error { return onlyErr(l.Acquire(ctx, name)) })
		},
	},
	{
		name: "Prompt/FinishedContext", promise: 6,
		says: "A call whose ctx has already ended returns its error at once and takes nothing, even if the name is free.",
		run: func(c *C) {
			l, name := c.open(), c.name("x")
			ended, cancel := context.WithDeadline(c.ctx, time.Now().Add(-time.Second))
			defer cancel()
			for what, acquire := range l.ways() {
				c.prompt(what, 0, false, func(ctx context.Context) error { return onlyErr(acquire(ctx, name)) })
				if _, err := acquire(ended, name); !errors.Is(err, context.DeadlineExceeded) {
					c.errorf("%s with a ctx whose deadline is over: %v", what, err)
				}
			}
			l.free(name, soon)
		},
	},
	{
		name: "Prompt/Cause", promise: 6,
		says: "errors.Is finds the ctx's error, and the cause given when it was cancelled.",
		run: func(c *C) {
			name := c.name("x")
			c.open().acquire(name)
			why := errors.New("no longer needed")
			ctx, cancel := context.WithCancelCause(c.ctx)
			p := c.open().begin(ctx, name)
			cancel(why)
			p.returned(soon)
			if !errors.Is(p.err, context.Canceled) || !errors.Is(p.err, why) {
				c.errorf("cancelled with a cause of its own: %v", p.err)
			}
		},
	},
	{
		name: "Prompt/AcquireOverFrozenLink", promise: 6, needs: link,
		says: "Every call returns within 100 ms of its ctx ending whatever the client library does: the network is silent.",
		run:  func(c *C) { c.promptOver(func(l Link) { l.Freeze() }, "Acquire") },
	},
	{
		name: "Prompt/TryOverFrozenLink", promise: 6, needs: link,
		says: "Every call returns within 100 ms of its ctx ending whatever the client library does: TryAcquire, the network is silent.",
		run:  func(c *C) { c.promptOver(func(l Link) { l.Freeze() }, "TryAcquire") },
	},
	{
		name: "Prompt/AcquireOverCutLink", promise: 6, needs: link,
		says: "Every call returns within 100 ms of its ctx ending whatever the client library does: no connection can be made.",
		run:  func(c *C) { c.promptOver(func(l Link) { l.Cut() }, "Acquire") },
	},
	{
		name: "Prompt/WaiterOverFrozenLink", promise: 6, needs: link,
		says: "Every call returns within 100 ms of its ctx ending: a waiter to whom the network falls silent while it waits.",
		run: func(c *C) {
			name := c.name("x")
			c.open().acquire(name)
			a := c.openLink()
			c.prompt("Acquire", 2*promptly, false, func(ctx context.Context) error {
				defer time.AfterFunc(promptly, a.link.Freeze).Stop()
				return onlyErr(a.Acquire(ctx, name))
			})
		},
	},
	{
		name: "Prompt/ReleaseOverFrozenLink", promise: 6, needs: link,
		says: "Every call returns within 100 ms of its ctx ending: Release, the network is silent.",
		run: func(c *C) {
			a := c.openLink()
			held := []Holding{a.acquire(c.name("x")), a.acquire(c.name("y")), a.acquire(c.name("z"))}
			a.link.Freeze()
			c.prompt("Release", promptly, false, func(ctx context.Context) error {
				h := held[0]
				held = held[1:]
				return h.Release(ctx)
			})
		},
	},
	{
		name: "Prompt/CloseOverFrozenLink", promise: 6, needs: link,
		says: "Every call returns within 100 ms of its ctx ending: Close, the network is silent.",
		run: func(c *C) {
			var cut []*client
			for range 3 {
				a := c.openLink()
				a.acquire(c.name("x"))
				a.link.Freeze()
				cut = append(cut, a)
			}
			c.prompt("Close", promptly, false, func(ctx context.Context) error {
				a := cut[0]
				cut = cut[1:]
				if err := a.Close(ctx); err != nil {
					return err
				}
				// It may give up what it cannot reach and say nothing.
				<-ctx.Done()
				return ctx.Err()
			})
		},
	},
	{
		name: "Prompt/ServerGone", promise: 6, needs: stop, alone: true,
		says: "Every call returns within 100 ms of its ctx ending whatever the client library does: the server is away.",
		run: func(c *C) {
			l, name := c.open(), c.name("x")
			l.free(name, soon)
			c.whileAway(func() {
				c.prompt("Acquire", promptly, true, func(ctx context.Context) error { return onlyErr(l.Acquire(ctx, name)) })
			})
		},
	},
}

// promptOver breaks a client's link and looks how a call ends. An error before ctx
// ends is as good for TryAcquire, which does not wait.
func (c *C) promptOver(breakIt func(Link), what string) {
	a := c.openLink()
	a.free(c.name("warm"), soon)
	breakIt(a.link)
	name := c.name("x")
	c.prompt(what, 2*promptly, false, func(ctx context.Context) error {
		if what == "Acquire" {
			return onlyErr(a.Acquire(ctx, name))
		}
		_, err := a.TryAcquire(ctx, name)
		if err != nil && ctx.Err() == nil && !errors.Is(err, locker.ErrNotAcquired) {
			<-ctx.Done()
			return ctx.Err()
		}
		return err
	})
	a.link.Heal()
}

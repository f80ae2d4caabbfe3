package conformance

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed80cd6120/locker"
)

var errorCases = []*testCase{
	newCase("Errors/Fields", 13).proves(
		"The error names operation, backend and lock, and wraps the reason.",
		func(c *C) {
			a, b := c.open(), c.open()
			h := a.acquire(c.x)
			c.tells(onlyErr(b.TryAcquire(c.ctx, c.x)), c.x, locker.ErrNotAcquired)
			c.tells(onlyErr(b.Acquire(c.ended(), c.x)), c.x, context.Canceled)
			c.release(h)
			lost := a.acquire(c.x, locker.WithLease(shortLease))
			c.ends(lost, "its lease was over")
			c.tells(lost.Release(c.ctx), c.x, locker.ErrLost)
			b.close()
			c.tells(onlyErr(b.Acquire(c.ctx, c.x)), c.x, locker.ErrClosed)
		}),
	newCase("Errors/FreeIsNotTaken", 13).proves(
		"ErrNotAcquired is returned when somebody else holds the name or waits for it, and only then.",
		func(c *C) {
			l := c.open()
			for _, name := range c.names(40) {
				c.release(l.takes(name))
			}
		}),
	newCase("Errors/Unreachable", 13).needing(link).proves(
		"A server that cannot be reached is an error by ctx, never a lock, never \"not acquired\".",
		func(c *C) {
			a := c.openWarm()
			a.link.Cut()
			for _, acquire := range a.ways() {
				c.unreachable(acquire, 700*time.Millisecond)
			}
			a.link.Heal()
			c.leftFree(c.x)
		}),
	newCase("Errors/ServerGone", 13).needing(stop).apart().proves(
		"A server that is away is an error by ctx, never a lock, never \"not acquired\".",
		func(c *C) {
			l := c.open()
			l.free(c.x, soon)
			c.whileAway(func() { c.unreachable(l.TryAcquire, time.Second) })
			c.leftFree(c.x)
		}),
	newCase("Errors/ReleaseUnreachable", 13).needing(link).proves(
		"A release that could not be confirmed is an error, not a success.",
		func(c *C) {
			a := c.openLink()
			h := a.acquire(c.x)
			a.link.Freeze()
			ctx, cancel := context.WithTimeout(c.ctx, 300*time.Millisecond)
			defer cancel()
			c.tells(h.Release(ctx), c.x, context.DeadlineExceeded)
			if h.Context().Err() == nil {
				c.errorf("the context is alive after Release")
			}
			a.link.Heal()
			c.leftFree(c.x)
		}),
	newCase("Errors/Options", 13).proves(
		"Options that no backend could honour get ErrInvalidOption, before anything is sent.",
		func(c *C) {
			foreign := locker.BackendOption(func(*foreignSettings) error { return nil })
			for what, opt := range map[string]locker.Option{
				"no TTL":                       locker.WithTTL(0),
				"a negative TTL":               locker.WithTTL(-time.Second),
				"a TTL of two days":            locker.WithTTL(48 * time.Hour),
				"an owner of 2 KiB":            locker.WithOwner(strings.Repeat("o", 2048)),
				"no logger":                    locker.WithLogger(nil),
				"no clock":                     locker.WithClock(nil),
				"a nil option":                 nil,
				"an option of another backend": foreign,
			} {
				_, err := c.tryOpen(opt)
				var e *locker.Error
				if !errors.Is(err, locker.ErrInvalidOption) || !errors.As(err, &e) || e.Op != "open" || e.Backend == "" || errors.As(e.Err, &e) {
					c.errorf("opened with %s: %v, want one *Error that says which backend was opened", what, err)
				}
			}
			l := c.open()
			for _, opt := range []locker.AcquireOption{
				locker.WithLease(0), locker.WithLease(-1), locker.WithLease(48 * time.Hour), nil,
			} {
				for _, acquire := range l.ways() {
					c.refused(locker.ErrInvalidOption, c.ctx, acquire, c.x, opt)
				}
			}
		}),
	newCase("Errors/NothingSent", 13).needing(requests).apart().proves(
		"Bad names, bad options, a finished ctx, use after Close and a second release are answered without asking the server.",
		func(c *C) {
			l, closed := c.open(), c.open()
			h := l.acquire(c.name("released"))
			c.release(h)
			closed.free(c.name("warm"), soon)
			closed.close()
			ended := c.ended()
			bad := []func() error{
				func() error { return onlyErr(l.Acquire(c.ctx, "")) },
				func() error { return onlyErr(l.TryAcquire(c.ctx, strings.Repeat("a", locker.MaxName+1))) },
				func() error { return onlyErr(l.Acquire(ended, c.x)) },
				func() error { return onlyErr(l.TryAcquire(ended, c.x)) },
				func() error { return onlyErr(l.Acquire(c.ctx, c.x, locker.WithLease(-1))) },
				func() error { return onlyErr(closed.Acquire(c.ctx, c.x)) },
				func() error { return onlyErr(closed.TryAcquire(c.ctx, c.x)) },
				func() error { _ = h.Release(c.ctx); return locker.ErrReleased },
			}
			c.quiet()
			// One that is sent costs a request each time; pings and the like do not.
			const times = 20
			for i, call := range bad {
				before := c.requests()
				for range times {
					if call() == nil {
						c.fatalf("bad call %d was accepted", i)
					}
				}
				c.costs(c.requests()-before, times/2, "bad call %d, %d times,", i, times)
			}
		}),
	newCase("Errors/Owner", 13).proves(
		"The owner's text is any text: it never makes an acquisition fail.",
		func(c *C) {
			for _, owner := range []string{"", "\x00\xff", "a\nb", "{\"a\": 1}", strings.Repeat("o", locker.MaxOwner), "%s|,;:/"} {
				l, err := c.tryOpen(locker.WithOwner(owner))
				c.must(err, "open with owner %s", brief(owner))
				h, err := l.Acquire(c.ctx, c.x)
				c.must(err, "acquire with owner %s", brief(owner))
				c.holds(h)
			}
		}),
	newCase("Errors/Misconfigured", 13).needing(misconfigured).proves(
		"Wrong password, no permission, TLS failure: an error that wraps the client's own, at once or by ctx, never as a hang, never \"not acquired\".",
		func(c *C) {
			whats := slices.Sorted(maps.Keys(c.h.Misconfigured))
			each(len(whats), func(i int) { c.misconfigured(whats[i], c.h.Misconfigured[whats[i]]) })
		}),
}

func (c *C) misconfigured(what string, open func(context.Context, ...locker.Option) (locker.Locker, error)) {
	const limit = 3 * time.Second
	ctx, cancel := context.WithTimeout(c.ctx, limit)
	defer cancel()
	start := time.Now()
	name := c.name("x")
	l, err := open(ctx, locker.WithTTL(longTTL))
	if err == nil {
		cl := c.keep(lockerClient{l}, Link{})
		defer func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), time.Second)
			defer cancel()
			_ = cl.Close(ctx)
		}()
		for _, acquire := range []acquirer{cl.TryAcquire, cl.Acquire} {
			var h Holding
			if h, err = acquire(ctx, name); err == nil {
				c.errorf("%s: got a lock", what)
				_ = h.Release(c.ctx)
				return
			}
			c.unknown(err, name)
		}
	}
	if took := time.Since(start); took > limit+200*time.Millisecond+c.late.Slack(start) {
		c.errorf("%s: took %v with a ctx of %v", what, took, limit)
	}
	c.logf("%s: %v", what, err)
}

type foreignSettings struct{ _ int }

// unreachable fails the case unless an acquisition from a server that cannot be reached is an error by ctx.
func (c *C) unreachable(acquire acquirer, d time.Duration) {
	c.tb.Helper()
	ctx, cancel := context.WithTimeout(c.ctx, d)
	defer cancel()
	c.unknown(onlyErr(acquire(ctx, c.x)), c.x)
}

// unknown fails the case unless err tells what it is about, and not that the name is taken, which is not known.
func (c *C) unknown(err error, name string) {
	c.tb.Helper()
	c.tells(err, name, nil)
	if errors.Is(err, locker.ErrNotAcquired) {
		c.errorf("%v, which is not known", err)
	}
}

// tells fails the case unless err tells what it is about. reason may be nil.
func (c *C) tells(err error, name string, reason error) {
	c.tb.Helper()
	var e *locker.Error
	switch {
	case err == nil:
		c.errorf("no error, want %v", reason)
	case reason != nil && !errors.Is(err, reason):
		c.expect(err, reason, "the error")
	case !errors.As(err, &e):
		c.errorf("%v is no *locker.Error", err)
	case e.Op == "" || e.Backend == "" || e.Name != name || e.Err == nil:
		c.errorf("the error does not tell: Op %q, Backend %q, Name %q, Err %v", e.Op, e.Backend, e.Name, e.Err)
	case !strings.Contains(err.Error(), e.Op) || !strings.Contains(err.Error(), e.Backend):
		c.errorf("the text does not tell operation and backend: %v", err)
	}
}

package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/seed80cd6120/locker"
)

var withinCases = []*testCase{
	{
		name: "Within/Cause", promise: 3, needs: madeByLocker,
		says: "The context of Within ends when ctx does or the lock does, with the cause of whichever was first.",
		run: func(c *C) {
			type key struct{}
			l := c.openLocker()
			why := errors.New("no longer needed")
			ends := func(what string, within context.Context, want error) {
				select {
				case <-within.Done():
				case <-time.After(soon):
					c.errorf("%s: the context does not end", what)
				}
				if !errors.Is(context.Cause(within), want) || within.Err() == nil {
					c.errorf("%s: %v, cause %v, want %v", what, within.Err(), context.Cause(within), want)
				}
			}
			parent, cancel := context.WithCancelCause(context.WithValue(c.ctx, key{}, "value"))
			h := l.lock(c.name("x"))
			within := c.b.api.within(h, parent)
			if within.Err() != nil || within.Value(key{}) != "value" {
				c.errorf("before any end: %v, value %v", within.Err(), within.Value(key{}))
			}
			cancel(why)
			ends("ctx was cancelled", within, why)
			c.alive(h, "when ctx ended")
			within = c.b.api.within(h, c.ctx)
			c.release(h)
			ends("the lock was released", within, locker.ErrReleased)

			parent, cancel = context.WithCancelCause(c.ctx)
			h = l.lock(c.name("x"), locker.WithLease(shortLease))
			within = c.b.api.within(h, parent)
			ends("the lease was over", within, locker.ErrLost)
			cancel(why)
			ends("the lease was over before ctx was cancelled", within, locker.ErrLost)
			ends("the lease had been over", c.b.api.within(h, c.ctx), locker.ErrLost)
		},
	},
	{
		name: "Within/LookTellsTime", promise: 3, needs: madeByLocker,
		says: "The context of Within compares the clock itself, also if ctx is derived from the lock's own: no look that begins after the time of the lock finds it alive.",
		run: func(c *C) {
			l := c.openLocker()
			for range 3 {
				h := l.lock(c.name("x"), locker.WithLease(shortLease))
				over := stamp() + int64(shortLease)
				derived, cancel := context.WithCancel(h.Context())
				ctx := c.b.api.within(h, derived)
				for {
					begun := stamp()
					if ctx.Err() != nil {
						break
					}
					if begun > over {
						c.fatalf("alive %v after the end of its lease", time.Duration(begun-over))
					}
				}
				cancel()
			}
		},
	},
}

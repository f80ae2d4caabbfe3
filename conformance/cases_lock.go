package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/seed80cd6120/locker"
)

var wantedCases = []*testCase{
	newCase("Wanted/Nobody", 13).needing(madeByLocker).proves(
		"Wanted is never closed while nobody else has waited: not by a try that fails, and not for whoever waited itself.",
		func(c *C) {
			a, b := c.openLocker(), c.openLocker()
			first := a.lock(c.x)
			for range 3 {
				b.taken(c.x)
				a.taken(c.x)
			}
			unwanted := func(l *locker.Lock) {
				select {
				case <-c.b.api.wanted(l):
					c.errorf("%v is wanted, and nobody waits", l)
				case <-time.After(400 * time.Millisecond):
				}
			}
			unwanted(first)
			p := b.queue(c.x)
			c.release(first)
			second, ok := p.held(soon).(*locker.Lock)
			if !ok {
				return // a defect stands between
			}
			unwanted(second)
			c.release(second)
		}),
	newCase("Wanted/Hint", 13).needing(madeByLocker).proves(
		"Wanted is a channel that may be asked for at any time: before and after somebody waits, and after the end.",
		func(c *C) {
			h := c.openLocker().lock(c.x)
			before := c.b.api.wanted(h)
			p := c.waiter()
			select {
			case <-before:
				if !isClosed(c.b.api.wanted(h)) {
					c.errorf("Wanted is closed for one who asked before, and open for one who asks now")
				}
			case <-time.After(400 * time.Millisecond): // it may come late or never
			}
			c.release(h)
			if c.b.api.wanted(h) == nil {
				c.errorf("Wanted after the release is nil")
			}
			c.release(p.held(soon))
		}),
}

var withinCases = []*testCase{
	newCase("Within/Cause", 3).needing(madeByLocker).proves(
		"The context of Within ends when ctx does or the lock does, with the cause of whichever was first.",
		func(c *C) {
			type key struct{}
			l := c.openLocker()
			why := errors.New("no longer needed")
			parent, cancel := context.WithCancelCause(context.WithValue(c.ctx, key{}, "value"))
			h := l.lock(c.name("x"))
			within := c.b.api.within(h, parent)
			if within.Err() != nil || within.Value(key{}) != "value" {
				c.errorf("before any end: %v, value %v", within.Err(), within.Value(key{}))
			}
			cancel(why)
			c.endsWith(within, why, "ctx was cancelled")
			c.alive(h, "when ctx ended")
			within = c.b.api.within(h, c.ctx)
			c.release(h)
			c.endsWith(within, locker.ErrReleased, "the lock was released")

			parent, cancel = context.WithCancelCause(c.ctx)
			h = l.lock(c.name("x"), locker.WithLease(shortLease))
			within = c.b.api.within(h, parent)
			c.endsWith(within, locker.ErrLost, "the lease was over")
			cancel(why)
			c.endsWith(within, locker.ErrLost, "the lease was over before ctx was cancelled")
			c.endsWith(c.b.api.within(h, c.ctx), locker.ErrLost, "the lease had been over")
		}),
	newCase("Within/LookTellsTime", 3).needing(madeByLocker).proves(
		"The context of Within compares the clock itself, also if ctx is derived from the lock's own: no look that begins after the time of the lock finds it alive.",
		func(c *C) {
			l := c.openLocker()
			for range 3 {
				h := l.lock(c.name("x"), locker.WithLease(shortLease))
				derived, cancel := context.WithCancel(h.Context())
				c.looksTell(c.b.api.within(h, derived))
				cancel()
			}
		}),
}

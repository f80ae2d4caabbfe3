package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/seed80cd6120/locker"
)

// ghostBound is how long a clean-up may take when the server is well. It is
// shorter than longTTL, so that no lease does the cleaning.
const ghostBound = 8 * time.Second

// exorcised fails the case unless names can be had, at once after one another,
// and nothing is left of them on the server.
func (c *C) exorcised(names ...string) {
	c.tb.Helper()
	l := c.open()
	end := time.Now().Add(ghostBound)
	for _, name := range names {
		l.free(name, max(time.Until(end), time.Second)+c.late.Slack(end.Add(-ghostBound)))
	}
	c.nothingLeft(ghostBound)
}

// nothingLeft fails the case if something of its names stays on the server. Without
// the hook it can say nothing.
func (c *C) nothingLeft(d time.Duration) {
	c.tb.Helper()
	if c.h.Leftovers == nil {
		return
	}
	var left []string
	var err error
	if !c.within(d, func() bool {
		left, err = c.h.Leftovers(c.ctx, c.mine())
		return err == nil && len(left) == 0
	}) {
		c.errorf("left on the server after %v: %q %v", d, left[:min(len(left), 10)], err)
	}
}

var ghostCases = []*testCase{
	{
		name: "Ghosts/CancelledWaiter", promise: 5, kinds: allKinds,
		says: "An acquire that was cancelled while it waited leaves nothing behind and never becomes a holder later.",
		run: func(c *C) {
			name := c.name("x")
			a, b := c.open(), c.open()
			h := a.acquire(name, c.other...)
			for range 5 {
				ctx, cancel := context.WithCancel(c.ctx)
				p := b.begin(ctx, name, c.own...)
				c.settle()
				cancel()
				p.returned(soon)
				if p.err == nil {
					c.fatalf("got a lock that is held")
				}
			}
			c.release(h)
			c.exorcised(name)
			time.Sleep(100 * time.Millisecond)
			c.exorcised(name)
		},
	},
	{
		name: "Ghosts/CancelledInFront", promise: 5, kinds: allKinds,
		says: "A waiter that gives up lets those behind it go on at once.",
		run: func(c *C) {
			name := c.name("x")
			h := c.open().acquire(name, c.other...)
			ctx, cancel := context.WithCancel(c.ctx)
			defer cancel()
			first := c.open().begin(ctx, name, c.own...)
			c.settle()
			second := c.open().queue(name, c.other...)
			cancel()
			first.returned(soon)
			c.release(h)
			c.release(second.held(ghostBound))
			c.exorcised(name)
		},
	},
	{
		name: "Ghosts/CancelledAtRandom", promise: 5, kinds: allKinds,
		says: "An acquire that returned an error leaves nothing behind, at whatever moment its context ended.",
		run: func(c *C) {
			name := c.name("x")
			var wg sync.WaitGroup
			for range 3 {
				l := c.open()
				wg.Go(func() {
					for range 40 {
						ctx, cancel := context.WithCancel(c.ctx)
						t := time.AfterFunc(rand.N(4*time.Millisecond), cancel)
						if h, err := l.Acquire(ctx, name, c.own...); err == nil {
							time.Sleep(rand.N(time.Millisecond))
							c.release(h)
						}
						t.Stop()
						cancel()
					}
				})
			}
			wg.Wait()
			c.exorcised(name)
		},
	},
	{
		name: "Ghosts/DeadlineInFlight", promise: 5, kinds: allKinds,
		says: "An acquire whose time ran out while the server was being asked leaves nothing behind.",
		run: func(c *C) {
			l := c.open()
			l.free(c.name("warm"), soon)
			var names []string
			for i := range 60 {
				name := c.name(fmt.Sprint(i))
				names = append(names, name)
				ctx, cancel := context.WithTimeout(c.ctx, rand.N(3*time.Millisecond))
				acquire := l.Acquire
				if i%2 == 0 {
					acquire = l.TryAcquire
				}
				if h, err := acquire(ctx, name, c.own...); err == nil {
					c.release(h)
				}
				cancel()
			}
			c.exorcised(names...)
		},
	},
	{
		name: "Ghosts/CancelledWhenGranted", promise: 5, kinds: allKinds,
		says: "An acquire that is cancelled at the moment of its turn has the lock or leaves nothing behind.",
		run: func(c *C) {
			name := c.name("x")
			a, b := c.open(), c.open()
			for range 25 {
				h := a.acquire(name, c.other...)
				ctx, cancel := context.WithCancel(c.ctx)
				p := b.begin(ctx, name, c.own...)
				time.Sleep(rand.N(2 * time.Millisecond))
				go cancel()
				c.release(h)
				p.returned(soon)
				if p.err == nil {
					c.release(p.lock)
				}
				cancel()
			}
			c.exorcised(name)
		},
	},
	{
		name: "Ghosts/ReplyLost", promise: 5, needs: link, kinds: allKinds,
		says: "An acquire whose reply was lost leaves nothing behind on the server.",
		run: func(c *C) {
			a := c.openLink()
			a.free(c.name("warm"), soon)
			taken, waited := c.name("free"), c.name("held")
			h := c.open().acquire(waited, c.other...)
			a.link.Mute()
			var wg sync.WaitGroup
			for _, name := range []string{taken, waited} {
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(c.ctx, 400*time.Millisecond)
					defer cancel()
					if got, err := a.Acquire(ctx, name, c.own...); err == nil {
						c.errorf("got a lock without a reply")
						_ = got
					}
				})
			}
			wg.Wait()
			a.link.Heal()
			c.release(h)
			c.exorcised(taken, waited)
		},
	},
	{
		name: "Ghosts/ReplyLostOfTry", promise: 5, needs: link, kinds: allKinds,
		says: "A TryAcquire whose reply was lost leaves nothing behind on the server.",
		run: func(c *C) {
			a := c.openLink()
			a.free(c.name("warm"), soon)
			name := c.name("x")
			a.link.Mute()
			ctx, cancel := context.WithTimeout(c.ctx, 400*time.Millisecond)
			defer cancel()
			if _, err := a.TryAcquire(ctx, name, c.own...); err == nil {
				c.errorf("got a lock without a reply")
			}
			a.link.Heal()
			c.exorcised(name)
		},
	},
	{
		name: "Ghosts/CleaningFails", promise: 5, needs: link, kinds: allKinds,
		says: "If the cleaning up must wait for a server, it goes on in the background, however often it fails.",
		run: func(c *C) {
			a := c.openLink()
			a.free(c.name("warm"), soon)
			name := c.name("x")
			a.link.Mute()
			ctx, cancel := context.WithCancel(c.ctx)
			p := a.begin(ctx, name, c.own...)
			c.settle()
			a.link.Freeze() // the request is through, the cleaning up will not be
			cancel()
			p.returned(soon)
			if p.err == nil {
				c.errorf("got a lock without a reply")
			}
			c.settle()
			for range 3 {
				a.link.Cut()
				time.Sleep(100 * time.Millisecond)
				a.link.Heal()
				time.Sleep(20 * time.Millisecond)
			}
			c.exorcised(name)
		},
	},
	{
		name: "Ghosts/ServerRestarts", promise: 5, needs: stop, alone: true,
		says: "An acquire that failed because of a server restart leaves nothing behind.",
		run: func(c *C) {
			l := c.open()
			l.free(c.name("warm"), soon)
			held := c.name("held")
			h := c.open().acquire(held)
			ctx, cancel := context.WithTimeout(c.ctx, 600*time.Millisecond)
			defer cancel()
			waiting := l.begin(ctx, held)
			c.settle()
			var fresh *pending
			c.whileAway(func() {
				fresh = l.begin(ctx, c.name("fresh"))
				waiting.returned(soon)
				fresh.returned(soon)
				if waiting.err == nil || fresh.err == nil {
					c.errorf("got a lock from a server that is away")
				}
			})
			_ = h.Release(c.ctx)
			c.exorcised(held, fresh.name)
		},
	},
	{
		name: "Ghosts/FailedTries", promise: 5, kinds: allKinds,
		says: "A TryAcquire that returned ErrNotAcquired leaves nothing behind.",
		run: func(c *C) {
			name := c.name("x")
			a, b := c.open(), c.open()
			h := a.acquire(name, c.other...)
			for range 25 {
				b.taken(name, c.own...)
			}
			c.release(h)
			c.exorcised(name)
		},
	},
	{
		name: "Ghosts/ClosedWhileWaiting", promise: 5, kinds: allKinds,
		says: "An acquire that Close ended leaves nothing behind and never becomes a holder later.",
		run: func(c *C) {
			name := c.name("x")
			h := c.open().acquire(name, c.other...)
			b := c.open()
			p := b.queue(name, c.own...)
			if err := b.Close(c.ctx); err != nil {
				c.errorf("close: %v", err)
			}
			p.returned(soon)
			if p.err == nil {
				c.errorf("got a lock that is held")
			}
			c.release(h)
			c.exorcised(name)
		},
	},
	{
		name: "Ghosts/QueuedGoroutine", promise: 5,
		says: "A goroutine that gives up behind another of its process takes no turn later.",
		run: func(c *C) {
			name := c.name("x")
			l := c.open()
			h := l.acquire(name)
			first := l.queue(name)
			ctx, cancel := context.WithCancel(c.ctx)
			defer cancel()
			second := l.begin(ctx, name)
			third := l.begin(c.ctx, name)
			c.settle()
			cancel()
			second.returned(soon)
			if !errors.Is(second.err, context.Canceled) {
				c.errorf("the goroutine that gave up got %v", second.err)
			}
			c.release(h)
			c.release(first.held(soon))
			c.release(third.held(soon))
			c.exorcised(name)
		},
	},
	{
		name: "Ghosts/InvalidCalls", promise: 5,
		says: "A call that is refused for its arguments or its finished context has taken nothing.",
		run: func(c *C) {
			name := c.name("x")
			a := c.open()
			ended, cancel := context.WithCancel(c.ctx)
			cancel()
			for range 5 {
				if _, err := a.Acquire(ended, name); err == nil {
					c.errorf("acquired with a context that had ended")
				}
				if _, err := a.TryAcquire(ended, name); err == nil {
					c.errorf("acquired with a context that had ended")
				}
				if _, err := a.TryAcquire(c.ctx, name, locker.WithLease(-1)); err == nil {
					c.errorf("acquired with a negative lease")
				}
			}
			c.exorcised(name)
		},
	},
}

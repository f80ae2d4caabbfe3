package conformance

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed80cd6120/locker"
)

var leadCases = []*testCase{
	{
		name: "Lead/OneAtATime", promise: 1, needs: madeByLocker,
		says: "One leads at a time, and whoever resigns makes way for the next.",
		run: func(c *C) {
			name := c.name("x")
			var rec record
			var wg sync.WaitGroup
			for i := range 4 {
				l := c.openLocker()
				wg.Go(func() {
					for range 5 {
						err := c.b.api.lead(c.ctx, l.locker, name, func(ctx context.Context, lock *locker.Lock) error {
							begin := stamp()
							time.Sleep(2 * time.Millisecond)
							rec.add(i, lock, begin)
							return nil
						})
						if err != nil {
							c.fatalf("Lead: %v", err)
						}
					}
				})
			}
			wg.Wait()
			rec.check(c, name)
			c.exorcised(name)
		},
	},
	{
		name: "Lead/AgainAfterLoss", promise: 3, needs: madeByLocker | destroy,
		says: "The ctx of a leader ends when the lead is lost, and it campaigns again once its function has returned.",
		run: func(c *C) {
			name := c.name("x")
			var terms atomic.Int64
			led := make(chan *locker.Lock)
			done := make(chan error, 1)
			l := c.openLocker()
			go func() {
				done <- c.b.api.lead(c.ctx, l.locker, name, func(ctx context.Context, lock *locker.Lock) error {
					if terms.Add(1) == 3 {
						return nil
					}
					led <- lock
					select {
					case <-ctx.Done():
					case <-time.After(told + soon):
						c.errorf("the ctx of a leader is alive long after its lock was destroyed")
					}
					if !errors.Is(context.Cause(ctx), locker.ErrLost) {
						c.errorf("the ctx of a leader whose lock was destroyed: %v", context.Cause(ctx))
					}
					return ctx.Err()
				})
			}()
			for range 2 {
				select {
				case <-led:
					c.destroy(name)
				case err := <-done:
					c.fatalf("Lead returned %v, although the lead was only lost", err)
				case <-time.After(soon):
					c.fatalf("nobody leads")
				}
			}
			select {
			case err := <-done:
				if err != nil {
					c.errorf("Lead of a leader that resigned: %v", err)
				}
			case <-time.After(soon):
				c.fatalf("Lead does not return although its function returned nil")
			}
			c.exorcised(name)
		},
	},
	{
		name: "Lead/Returns", promise: 13, needs: madeByLocker,
		says: "Lead returns nil for one who resigns, the error of one who fails while leading, and ctx's error for one who campaigns.",
		run: func(c *C) {
			name, failed := c.name("x"), errors.New("failed")
			l, other := c.openLocker(), c.open()
			for _, want := range []error{nil, failed} {
				terms := 0
				err := c.b.api.lead(c.ctx, l.locker, name, func(ctx context.Context, lock *locker.Lock) error {
					terms++
					other.taken(name)
					if terms > 1 {
						return nil
					}
					return want
				})
				if !errors.Is(err, want) || terms != 1 {
					c.errorf("Lead returned %v after %d terms, want %v after the first", err, terms, want)
				}
				other.free(name, soon)
			}
			h := other.acquire(name)
			ctx, cancel := context.WithTimeout(c.ctx, 100*time.Millisecond)
			defer cancel()
			err := c.b.api.lead(ctx, l.locker, name, func(context.Context, *locker.Lock) error {
				c.errorf("leads although another does")
				return nil
			})
			if !errors.Is(err, context.DeadlineExceeded) {
				c.errorf("Lead of one whose ctx ended: %v", err)
			}
			c.release(h)
			c.exorcised(name)
		},
	},
}

package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/lateness"
)

var leadCases = []*testCase{
	newCase("Lead/OneAtATime", 1).needing(madeByLocker).proves(
		"One leads at a time, and whoever resigns makes way for the next.",
		func(c *C) {
			var rec record
			together(4, func(i int) {
				l := c.openLocker().locker
				for range 5 {
					c.must(c.b.api.lead(c.ctx, l, c.x, func(ctx context.Context, lock *locker.Lock) error {
						begin := stamp()
						time.Sleep(2 * time.Millisecond)
						rec.add(i, lock, begin)
						return nil
					}), "Lead")
				}
			})
			rec.check(c, c.x)
			c.leftFree(c.x)
		}),
	newCase("Lead/AgainAfterLoss", 3).needing(madeByLocker|destroy).proves(
		"The ctx of a leader ends when the lead is lost, and it campaigns again once its function has returned.",
		func(c *C) {
			led := make(chan struct{})
			done := make(chan struct{})
			l := c.openLocker().locker
			var err error
			go func() {
				defer close(done)
				terms := 0
				err = c.b.api.lead(c.ctx, l, c.x, func(ctx context.Context, lock *locker.Lock) error {
					if terms++; terms == 3 {
						return nil
					}
					select {
					case led <- struct{}{}:
					case <-ctx.Done():
					}
					c.endsWith(ctx, locker.ErrLost, "the lock of a leader was destroyed")
					return ctx.Err()
				})
			}()
			for range 2 {
				if _, ok := lateness.Receive(c.ctx, c.late, led, soon); !ok {
					if isClosed(done) {
						c.must(err, "Lead")
						c.fatalf("Lead returned nil, although the lead was only lost")
					}
					c.unlessLate(c.begun, time.Second, "nobody leads")
					return
				}
				c.destroy(c.x)
			}
			if !c.closes(done, soon) {
				c.fatalf("Lead does not return although its function returned nil")
			}
			c.expect(err, nil, "Lead of a leader that resigned")
			c.leftFree(c.x)
		}),
	newCase("Lead/Returns", 13).needing(madeByLocker).proves(
		"Lead returns nil for one who resigns, the error of one who fails while leading, and ctx's error for one who campaigns.",
		func(c *C) {
			failed := errors.New("failed")
			l, other := c.openLocker().locker, c.open()
			for _, want := range []error{nil, failed} {
				terms := 0
				err := c.b.api.lead(c.ctx, l, c.x, func(ctx context.Context, lock *locker.Lock) error {
					other.taken(c.x)
					if terms++; terms > 1 {
						return nil
					}
					return want
				})
				c.expect(err, want, "Lead")
				if terms != 1 {
					c.errorf("Lead returned %v after %d terms, want it after the first", err, terms)
				}
				other.free(c.x, soon)
			}
			h := other.acquire(c.x)
			ctx, cancel := context.WithTimeout(c.ctx, 100*time.Millisecond)
			defer cancel()
			err := c.b.api.lead(ctx, l, c.x, func(context.Context, *locker.Lock) error {
				c.errorf("leads although another does")
				return nil
			})
			c.expect(err, context.DeadlineExceeded, "Lead of one whose ctx ended")
			c.release(h)
			c.leftFree(c.x)
		}),
}

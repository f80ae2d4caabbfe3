package locker

import (
	"cmp"
	"context"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// steady is how long a leader has to lead for the next campaign to begin without a pause.
const steady = 10 * time.Second

// Lead makes the caller campaign for name and runs fn while it leads. The context of fn ends
// when ctx does and when the lead is lost; whoever loses it campaigns again once fn has
// returned. Lead returns when fn returns without the lead having been lost, or nil at any time,
// which resigns; or when campaigning fails: with ctx's error, ErrClosed, or one that no
// waiting mends.
func Lead(ctx context.Context, l Locker, name string, fn func(ctx context.Context, lock *Lock) error, opts ...AcquireOption) error {
	for pause := new(driver.Backoff); ; {
		lock, err := l.Acquire(ctx, name, opts...)
		if err != nil {
			return err
		}
		begun := time.Now()
		err, released := lock.use(ctx, fn)
		switch lost := lock.lost() != nil; {
		case lost && err == nil:
			return nil
		case !lost:
			return cmp.Or(err, released)
		}
		if time.Since(begun) > steady {
			pause = new(driver.Backoff)
		}
		pause.Sleep(ctx)
	}
}

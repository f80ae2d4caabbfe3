package rivals

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/dial"
)

// redislockBeat is how often a waiter of bsm/redislock asks again. The library has no
// default, it does not wait at all unless told how; its examples show 100 ms. The
// tenth of that makes it faster when contended, at ten times the requests.
const redislockBeat = 10 * time.Millisecond

var redislockContender = contender.Contender{
	Family: "redislock",
	Setup:  contender.Redis1,
	Note:   "github.com/bsm/redislock v0.9.4, LinearBackoff(10ms)",
	Traits: contender.Traits{Waits: true},
	Open: func(_ context.Context, cfg contender.Config) (contender.Client, error) {
		conn := dial.Redis(cfg.Addrs[0])
		locks := redislock.New(conn)
		obtain := func(ctx context.Context, name string, retry redislock.RetryStrategy) (contender.Held, error) {
			l, err := locks.Obtain(ctx, name, cfg.TTL, &redislock.Options{RetryStrategy: retry})
			if errors.Is(err, redislock.ErrNotObtained) {
				return nil, contender.ErrTaken
			}
			if err != nil {
				return nil, err
			}
			return redislockHeld{l.Release, l}, nil
		}
		return contender.Client{
			Acquire: func(ctx context.Context, name string) (contender.Held, error) {
				if _, ok := ctx.Deadline(); !ok {
					// Without a deadline the library gives up after one TTL.
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, 24*time.Hour)
					defer cancel()
				}
				return obtain(ctx, name, redislock.LinearBackoff(redislockBeat))
			},
			Try: func(ctx context.Context, name string) (contender.Held, error) {
				return obtain(ctx, name, redislock.NoRetry())
			},
			Close: conn.Close,
		}, nil
	},
}

// redislockHeld has no token: that of the library is a random text.
type redislockHeld struct {
	contender.Plain
	lock *redislock.Lock
}

func (h redislockHeld) Extend(ctx context.Context, ttl time.Duration) error {
	return h.lock.Refresh(ctx, ttl, nil)
}

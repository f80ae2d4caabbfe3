package rivals

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/go-redsync/redsync/v4"
	syncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/dial"
)

// redsync is used with its own delays between tries (50 to 250 ms, at random). Only
// the number of tries is raised: with its 32 a waiter would give up after five seconds.
var redsyncContender = contender.Contender{
	Family: "redsync",
	Note:   "github.com/go-redsync/redsync/v4 v4.18.0, its own delays, no limit of tries",
	Traits: contender.Traits{Waits: true},
	Open: func(_ context.Context, cfg contender.Config) (contender.Client, error) {
		var pools []syncredis.Pool
		var closes []func() error
		for _, addr := range cfg.Addrs {
			conn := dial.Redis(addr)
			closes = append(closes, conn.Close)
			pools = append(pools, goredis.NewPool(conn))
		}
		sync := redsync.New(pools...)
		mutex := func(name string) *redsync.Mutex {
			return sync.NewMutex(name, redsync.WithExpiry(cfg.TTL), redsync.WithTries(math.MaxInt))
		}
		return contender.Client{
			Acquire: func(ctx context.Context, name string) (contender.Held, error) {
				m := mutex(name)
				return redsyncHeld{m}, m.LockContext(ctx)
			},
			Try: func(ctx context.Context, name string) (contender.Held, error) {
				m := mutex(name)
				err := m.TryLockContext(ctx)
				var taken *redsync.ErrTaken
				if errors.As(err, &taken) {
					err = contender.ErrTaken
				}
				return redsyncHeld{m}, err
			},
			Close: func() (err error) {
				for _, end := range closes {
					err = errors.Join(err, end())
				}
				return err
			},
		}, nil
	},
}

type redsyncHeld struct{ mutex *redsync.Mutex }

func (redsyncHeld) Token() int64          { return 0 }
func (h redsyncHeld) Deadline() time.Time { return h.mutex.Until() }

func (h redsyncHeld) Release(ctx context.Context) error {
	return reached(h.mutex.UnlockContext(ctx))
}

// Extend ignores ttl: a mutex keeps that which it was made with.
func (h redsyncHeld) Extend(ctx context.Context, _ time.Duration) error {
	return reached(h.mutex.ExtendContext(ctx))
}

func reached(quorum bool, err error) error {
	if err == nil && !quorum {
		err = fmt.Errorf("redsync: no quorum was reached")
	}
	return err
}

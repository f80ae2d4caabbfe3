package rivals

import (
	"context"
	"errors"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/seed80cd6120/locker/benchmarks/contender"
)

// rueidislock asks for three keys by default, for use over a cluster; on one server
// that is the same lock three times, so one is asked for. NoLoopTracking is what
// its documentation advises from Redis 7.0.5 on.
var rueidislockContender = contender.Contender{
	Family: "rueidislock",
	Setup:  contender.Redis1,
	Note:   "package of github.com/redis/rueidis v1.0.79, KeyMajority 1, NoLoopTracking",
	Traits: contender.Traits{Waits: true, Renews: true},
	Open: func(_ context.Context, cfg contender.Config) (contender.Client, error) {
		locks, err := rueidislock.NewLocker(rueidislock.LockerOption{
			ClientOption:   rueidis.ClientOption{InitAddress: cfg.Addrs[:1]},
			KeyMajority:    1,
			KeyValidity:    cfg.TTL,
			NoLoopTracking: true,
		})
		if err != nil {
			return contender.Client{}, err
		}
		return contender.Client{
			Acquire: func(ctx context.Context, name string) (contender.Held, error) {
				return ownContext(ctx, name, locks.WithContext)
			},
			Try: func(ctx context.Context, name string) (contender.Held, error) {
				held, err := ownContext(ctx, name, locks.TryWithContext)
				if errors.Is(err, rueidislock.ErrNotLocked) {
					err = contender.ErrTaken
				}
				return held, err
			},
			Close: contender.Closing(locks.Close),
		}, nil
	},
}

type rueidislockTake func(ctx context.Context, name string) (context.Context, context.CancelFunc, error)

// ownContext has the ctx of an acquisition end the acquisition only. The library takes it for
// that of the holding as well: a lock that was waited for under a timeout would be lost
// when that has passed, and its key would live no longer than that from the beginning.
func ownContext(ctx context.Context, name string, take rueidislockTake) (contender.Held, error) {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	within, release, err := take(own, name)
	if !stop() { // ctx is over
		if err == nil {
			release()
		}
		return nil, ctx.Err()
	}
	if err != nil {
		cancel()
		return nil, err
	}
	return rueidislockHeld{within, func() { release(); cancel() }}, nil
}

type rueidislockHeld struct {
	ctx     context.Context
	release func()
}

func (rueidislockHeld) Token() int64               { return 0 }
func (h rueidislockHeld) Context() context.Context { return h.ctx }
func (h rueidislockHeld) Release(context.Context) error {
	h.release() // says nothing of its success
	return nil
}

var _ contender.Watched = rueidislockHeld{}

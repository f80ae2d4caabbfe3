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
func rueidislockContender() contender.Contender {
	return contender.Contender{
		Name:   "rueidislock",
		Family: "rueidislock",
		Role:   contender.Rival,
		Setup:  contender.Setup{Service: contender.Redis, Nodes: 1},
		Note:   "package of github.com/redis/rueidis v1.0.79, KeyMajority 1, NoLoopTracking",
		Traits: contender.Traits{Waits: true, Renews: true},
		Open: func(_ context.Context, cfg contender.Config) (contender.Client, error) {
			l, err := rueidislock.NewLocker(rueidislock.LockerOption{
				ClientOption:   rueidis.ClientOption{InitAddress: cfg.Addrs[:1]},
				KeyMajority:    1,
				KeyValidity:    cfg.TTL,
				NoLoopTracking: true,
			})
			if err != nil {
				return nil, err
			}
			return rueidislockClient{l}, nil
		},
	}
}

type rueidislockClient struct{ locks rueidislock.Locker }

func (c rueidislockClient) Acquire(ctx context.Context, name string) (contender.Held, error) {
	return lend(ctx, func(ctx context.Context) (context.Context, context.CancelFunc, error) {
		return c.locks.WithContext(ctx, name)
	})
}

func (c rueidislockClient) Try(ctx context.Context, name string) (contender.Held, error) {
	held, err := lend(ctx, func(ctx context.Context) (context.Context, context.CancelFunc, error) {
		return c.locks.TryWithContext(ctx, name)
	})
	if errors.Is(err, rueidislock.ErrNotLocked) {
		err = contender.ErrTaken
	}
	return held, err
}

// lend has the ctx of an acquisition end the acquisition only. The library takes it for
// that of the holding as well: a lock that was waited for under a timeout would be lost
// when that has passed, and its key would live no longer than that from the beginning.
func lend(ctx context.Context, take func(context.Context) (context.Context, context.CancelFunc, error)) (contender.Held, error) {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	within, release, err := take(own)
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

func (c rueidislockClient) Close() error {
	c.locks.Close()
	return nil
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

// Package ours puts the backends of this project into the comparison.
package ours

import (
	"context"
	"errors"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/benchmarks/contender"
)

// All returns our backends in the order of the report.
func All() []contender.Contender {
	return []contender.Contender{
		memoryContender(),
		redisContender(),
		redlockContender("redlock-5", contender.Usual, true),
		redlockContender("redlock-5-unfenced", contender.Usual, false),
		redlockContender("redlock-5-blackhole", contender.BlackHole, true),
		zooKeeperContender(1, contender.Usual),
		zooKeeperContender(1, contender.NoSync),
		zooKeeperContender(3, contender.Usual),
		etcdContender(1),
		etcdContender(3),
		postgresContender(false),
		postgresContender(true),
		mysqlContender(),
	}
}

// options are those that every backend has.
func options(cfg contender.Config) []locker.Option {
	return []locker.Option{locker.WithTTL(cfg.TTL), locker.WithHandOver(cfg.HandOver)}
}

// traits are those that every backend has, with its shortest TTL.
func traits(least time.Duration) contender.Traits {
	return contender.Traits{Waits: true, Renews: true, Fenced: true, Shared: true, Permits: true, HandOver: true, MinTTL: least}
}

// client is a Locker with what has to be closed after it.
type client struct {
	locker.Locker
	after func() error
}

func (c client) Acquire(ctx context.Context, name string) (contender.Held, error) {
	l, err := c.Locker.Acquire(ctx, name)
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (c client) AcquireKind(ctx context.Context, name string, k contender.Kind) (contender.Held, error) {
	var opts []locker.AcquireOption
	if k.Shared {
		opts = append(opts, locker.Shared())
	}
	if k.Permits > 0 {
		opts = append(opts, locker.Permits(k.Permits, k.Of))
	}
	if k.Lease > 0 {
		opts = append(opts, locker.WithLease(k.Lease))
	}
	l, err := c.Locker.Acquire(ctx, name, opts...)
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (c client) Try(ctx context.Context, name string) (contender.Held, error) {
	l, err := c.TryAcquire(ctx, name)
	if errors.Is(err, locker.ErrNotAcquired) {
		return nil, contender.ErrTaken
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Close releases what is held, as Close of a Locker does.
func (c client) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := c.Locker.Close(ctx)
	if c.after != nil {
		err = errors.Join(err, c.after())
	}
	return err
}

var (
	_ contender.Dated   = (*locker.Lock)(nil)
	_ contender.Watched = (*locker.Lock)(nil)
	_ contender.Trier   = client{}
	_ contender.Chooser = client{}
)

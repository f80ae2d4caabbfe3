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
	"github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/dial"
)

// redsync is used with its own delays between tries (50 to 250 ms, at random). Only
// the number of tries is raised: with its 32 a waiter would give up after five seconds.
func redsyncContender(nodes int, v contender.Variant) contender.Contender {
	setup := contender.Setup{Service: contender.Redis, Nodes: nodes, Variant: v}
	return contender.Contender{
		Name:   name("redsync", setup),
		Family: "redsync",
		Role:   contender.Rival,
		Setup:  setup,
		Note:   "github.com/go-redsync/redsync/v4 v4.18.0, its own delays, no limit of tries",
		Traits: contender.Traits{Waits: true},
		Open: func(_ context.Context, cfg contender.Config) (contender.Client, error) {
			c := &redsyncClient{ttl: cfg.TTL}
			var pools []syncredis.Pool
			for _, addr := range cfg.Addrs[:nodes] {
				conn := dial.Redis(addr)
				c.conns = append(c.conns, conn)
				pools = append(pools, goredis.NewPool(conn))
			}
			c.sync = redsync.New(pools...)
			return c, nil
		},
	}
}

type redsyncClient struct {
	conns []*redis.Client
	sync  *redsync.Redsync
	ttl   time.Duration
}

func (c *redsyncClient) mutex(name string) *redsync.Mutex {
	return c.sync.NewMutex(name, redsync.WithExpiry(c.ttl), redsync.WithTries(math.MaxInt))
}

func (c *redsyncClient) Acquire(ctx context.Context, name string) (contender.Held, error) {
	m := c.mutex(name)
	if err := m.LockContext(ctx); err != nil {
		return nil, err
	}
	return redsyncHeld{m}, nil
}

func (c *redsyncClient) Try(ctx context.Context, name string) (contender.Held, error) {
	m := c.mutex(name)
	err := m.TryLockContext(ctx)
	var taken *redsync.ErrTaken
	if errors.As(err, &taken) {
		return nil, contender.ErrTaken
	}
	if err != nil {
		return nil, err
	}
	return redsyncHeld{m}, nil
}

func (c *redsyncClient) Close() error {
	var errs []error
	for _, conn := range c.conns {
		errs = append(errs, conn.Close())
	}
	return errors.Join(errs...)
}

type redsyncHeld struct{ mutex *redsync.Mutex }

func (redsyncHeld) Token() int64          { return 0 }
func (h redsyncHeld) Deadline() time.Time { return h.mutex.Until() }

func (h redsyncHeld) Release(ctx context.Context) error {
	ok, err := h.mutex.UnlockContext(ctx)
	if err == nil && !ok {
		err = fmt.Errorf("redsync: unlock did not reach a quorum")
	}
	return err
}

// Extend ignores ttl: a mutex keeps that which it was made with.
func (h redsyncHeld) Extend(ctx context.Context, _ time.Duration) error {
	ok, err := h.mutex.ExtendContext(ctx)
	if err == nil && !ok {
		err = fmt.Errorf("redsync: extend did not reach a quorum")
	}
	return err
}

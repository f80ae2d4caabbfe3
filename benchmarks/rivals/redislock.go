package rivals

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/dial"
)

// redislockBeat is how often a waiter of bsm/redislock asks again. The library has no
// default, it does not wait at all unless told how; its examples show 100 ms. The
// tenth of that makes it faster when contended, at ten times the requests.
const redislockBeat = 10 * time.Millisecond

func redislockContender() contender.Contender {
	return contender.Contender{
		Name:   "redislock",
		Family: "redislock",
		Role:   contender.Rival,
		Setup:  contender.Setup{Service: contender.Redis, Nodes: 1},
		Note:   "github.com/bsm/redislock v0.9.4, LinearBackoff(10ms)",
		Traits: contender.Traits{Waits: true},
		Open: func(_ context.Context, cfg contender.Config) (contender.Client, error) {
			conn := dial.Redis(cfg.Addrs[0])
			return &redislockClient{conn: conn, locks: redislock.New(conn), ttl: cfg.TTL}, nil
		},
	}
}

type redislockClient struct {
	conn  *redis.Client
	locks *redislock.Client
	ttl   time.Duration
}

func (c *redislockClient) Acquire(ctx context.Context, name string) (contender.Held, error) {
	if _, ok := ctx.Deadline(); !ok {
		// Without a deadline the library gives up after one TTL.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 24*time.Hour)
		defer cancel()
	}
	return c.obtain(ctx, name, redislock.LinearBackoff(redislockBeat))
}

func (c *redislockClient) Try(ctx context.Context, name string) (contender.Held, error) {
	return c.obtain(ctx, name, redislock.NoRetry())
}

func (c *redislockClient) obtain(ctx context.Context, name string, retry redislock.RetryStrategy) (contender.Held, error) {
	l, err := c.locks.Obtain(ctx, name, c.ttl, &redislock.Options{RetryStrategy: retry})
	if errors.Is(err, redislock.ErrNotObtained) {
		return nil, contender.ErrTaken
	}
	if err != nil {
		return nil, err
	}
	return redislockHeld{l}, nil
}

func (c *redislockClient) Close() error { return c.conn.Close() }

type redislockHeld struct{ lock *redislock.Lock }

func (redislockHeld) Token() int64                        { return 0 } // its Token is a random text
func (h redislockHeld) Release(ctx context.Context) error { return h.lock.Release(ctx) }
func (h redislockHeld) Extend(ctx context.Context, ttl time.Duration) error {
	return h.lock.Refresh(ctx, ttl, nil)
}

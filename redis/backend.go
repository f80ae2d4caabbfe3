package redis

import (
	"context"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/redisnode"
)

// checkEvery is how soon a holder learns that its key was deleted by hand.
const checkEvery = 750 * time.Millisecond

// backend is the driver. Close, Look, Names and Evict are the node's.
type backend struct {
	*redisnode.Node
	clock driver.Clock
}

func newBackend(client goredis.UniversalClient, cfg *locker.Config, s settings) (*backend, error) {
	node, err := redisnode.Open(client, redisnode.Options{Prefix: s.prefix, Clock: cfg.Clock, Logger: cfg.Logger})
	return &backend{node, cfg.Clock}, err
}

// Traits implements [driver.Driver].
func (b *backend) Traits() driver.Traits {
	return driver.Traits{
		Backend: "redis", Fair: true, Fenced: true, Shared: true, Permits: true,
		Inspect: true, Evict: true, Downgrade: true, Linger: true, Prompt: true, Check: checkEvery,
	}
}

func stateOf(c *driver.Claim) *redisnode.Claim { return c.State.(*redisnode.Claim) }

// Renew implements [driver.Driver].
func (b *backend) Renew(ctx context.Context, claims []*driver.Claim, report func(*driver.Claim, driver.Instant, error)) {
	all := make([]*redisnode.Claim, len(claims))
	for i, c := range claims {
		all[i] = stateOf(c)
	}
	b.Node.Renew(ctx, all, func(c *redisnode.Claim, until driver.Instant, err error) { report(c.Claim, until, err) })
}

// Release implements [driver.Driver].
func (b *backend) Release(ctx context.Context, c *driver.Claim) error {
	return b.Node.Release(ctx, stateOf(c), 0, 0)
}

// Linger implements [driver.Lingerer].
func (b *backend) Linger(ctx context.Context, c *driver.Claim, d time.Duration) error {
	return b.Node.Release(ctx, stateOf(c), d, 0)
}

// Abandon implements [driver.Driver].
func (b *backend) Abandon(ctx context.Context, c *driver.Claim) error {
	return b.Node.Abandon(ctx, stateOf(c))
}

// Lighten implements [driver.Weigher].
func (b *backend) Lighten(ctx context.Context, c *driver.Claim, weight int32) error {
	return b.Node.Lighten(ctx, stateOf(c), weight)
}

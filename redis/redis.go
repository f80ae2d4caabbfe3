// Package redis is the locker backend for one logical Redis.
package redis

import (
	"context"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/redisnode"
)

// DefaultPrefix is what every key begins with unless WithPrefix says otherwise.
const DefaultPrefix = "locker"

// checkEvery is how soon a holder learns that its key was deleted by hand.
const checkEvery = 750 * time.Millisecond

type settings struct{ prefix string }

// WithPrefix sets what every key and channel begins with, DefaultPrefix without it. Lockers with
// different prefixes do not know of each other. A prefix has 1 to 100 bytes, no braces and no
// spaces.
func WithPrefix(prefix string) locker.Option {
	return locker.BackendOption(func(s *settings) error { s.prefix = prefix; return nil })
}

// New returns a Locker on the server, or the Cluster, that client is connected to. It does no I/O.
// The client must stay open until the Locker has been closed.
func New(client goredis.UniversalClient, opts ...locker.Option) (locker.Locker, error) {
	s := settings{prefix: DefaultPrefix}
	cfg, err := locker.NewConfig("redis", &s, opts...)
	if err != nil {
		return nil, err
	}
	b, err := newBackend(client, cfg, s)
	if err != nil {
		return nil, &locker.Error{Op: "open", Backend: "redis", Err: err}
	}
	return locker.New(b, cfg)
}

// backend is the driver.
type backend struct {
	node  *redisnode.Node
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

// Close ends the subscription and what runs in the background.
func (b *backend) Close(ctx context.Context) error { return b.node.Close(ctx) }

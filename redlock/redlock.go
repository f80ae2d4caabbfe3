package redlock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/redisnode"
	"github.com/seed80cd6120/locker/internal/underway"
)

const (
	// DefaultPrefix is what every key begins with unless WithPrefix says otherwise.
	DefaultPrefix = "redlock"
	// checkEvery is how soon a holder learns that its keys were deleted by hand.
	checkEvery = 750 * time.Millisecond
)

type settings struct {
	prefix   string
	bound    time.Duration
	unfenced bool
}

// WithPrefix sets what all keys and channels begin with, DefaultPrefix without it. All programs
// that are to exclude each other need the same. A prefix has 1 to 100 bytes, no braces and no
// spaces.
func WithPrefix(prefix string) locker.Option {
	return locker.BackendOption(func(s *settings) error { s.prefix = prefix; return redisnode.CheckPrefix(prefix) })
}

// WithNodeTimeout sets how long a node may take to answer before the others decide without it.
// Without it that is a third of the TTL, but at least 200 ms and at most a second. Only what cannot
// be decided without the node takes that long, and only until the node is known to be silent.
func WithNodeTimeout(d time.Duration) locker.Option {
	return locker.BackendOption(func(s *settings) error {
		if d < time.Millisecond || d > time.Minute {
			return fmt.Errorf("node timeout %v is not between 1ms and 1m", d)
		}
		s.bound = d
		return nil
	})
}

// WithoutFencing makes a Locker whose locks have no token: Token is 0. It saves a round where the
// nodes do not agree on one. Holders with and without tokens exclude each other.
func WithoutFencing() locker.Option {
	return locker.BackendOption(func(s *settings) error { s.unfenced = true; return nil })
}

// New returns a Locker over independent Redis masters, one client for each. An odd number of three
// or more is what the algorithm is for. An even number works, but survives no more dead nodes than
// the odd number below it; one is a single Redis, with its weakness. Such numbers are logged as a
// warning.
//
// All programs have to be given the same nodes. New does no I/O. The clients must stay open until
// the Locker has been closed.
func New(clients []goredis.UniversalClient, opts ...locker.Option) (locker.Locker, error) {
	s := settings{prefix: DefaultPrefix}
	cfg, err := locker.NewConfig("redlock", &s, opts...)
	if err != nil {
		return nil, err
	}
	b, err := newBackend(clients, cfg, s)
	if err != nil {
		return nil, locker.InvalidOption("redlock", err)
	}
	return locker.New(b, cfg)
}

// backend is the driver.
type backend struct {
	nodes  []*node
	quorum int
	clock  driver.Clock
	log    *slog.Logger
	bound  time.Duration // the node timeout
	fenced bool

	working underway.Group // requests without an answer, and what is to be given back
	life    context.Context
	die     context.CancelFunc
}

func newBackend(clients []goredis.UniversalClient, cfg *locker.Config, s settings) (*backend, error) {
	n := len(clients)
	if n == 0 {
		return nil, errors.New("no clients")
	}
	if s.bound == 0 {
		s.bound = min(max(cfg.TTL/patience, 200*time.Millisecond), time.Second)
	}
	b := &backend{quorum: n/2 + 1, clock: cfg.Clock, log: cfg.Logger, bound: s.bound, fenced: !s.unfenced}
	b.life, b.die = context.WithCancel(context.Background())
	for i, client := range clients {
		if _, cluster := client.(*goredis.ClusterClient); cluster {
			return nil, fmt.Errorf("client %d is for a Cluster, but a node has to be one server", i)
		}
		redis, err := redisnode.Open(client, redisnode.Options{
			Prefix: s.prefix, Kind: "q", ByAge: true, Aside: true, Clock: cfg.Clock, Logger: cfg.Logger,
			At: func(c *driver.Claim) *redisnode.Claim { return stateOf(c).places[i].at },
		})
		if err != nil {
			return nil, fmt.Errorf("client %d: %w", i, err)
		}
		name := nameOf(client)
		if j := slices.IndexFunc(b.nodes, func(other *node) bool { return other.name == name }); j >= 0 {
			return nil, fmt.Errorf("clients %d and %d are for the same server", j, i)
		}
		b.nodes = append(b.nodes, &node{Node: redis, name: name})
	}
	if n < 3 || n%2 == 0 {
		cfg.Logger.Warn("locker: redlock: an odd number of three or more nodes is advised", "nodes", n, "dead nodes survived", (n-1)/2)
	}
	return b, nil
}

// nameOf returns the server's address, or what tells the client from others where Sentinels are asked.
func nameOf(c goredis.UniversalClient) string {
	if single, ok := c.(*goredis.Client); ok && single.Options().Addr != "FailoverClient" {
		return single.Options().Addr
	}
	return fmt.Sprintf("%p", c)
}

// Traits implements [driver.Driver].
func (b *backend) Traits() driver.Traits {
	return driver.Traits{
		Backend: "redlock", Fenced: b.fenced, Shared: true,
		Inspect: true, Evict: true, Downgrade: true, Linger: true, Prompt: true, Check: checkEvery,
	}
}

// Close waits for what is under way, but for a node that does not answer no longer than the node
// timeout: the client library gives that up in its own time.
func (b *backend) Close(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, b.bound)
	defer cancel()
	select {
	case <-b.working.None():
	case <-bounded.Done():
	}
	b.die()
	var all sync.WaitGroup
	for _, n := range b.nodes {
		all.Go(func() {
			if err := n.Close(bounded); err != nil {
				b.log.Warn("locker: redlock: closed although a node has not answered", "node", n.name, "error", err)
			}
		})
	}
	all.Wait()
	return ctx.Err()
}

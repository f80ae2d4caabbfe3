package faults

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/internal/faults/history"
	"github.com/seed80cd6120/locker/internal/servers"
)

// Backend is a lock together with the servers on which it is put to the test.
type Backend struct {
	// Name is that of the setup, "etcd-3"; Family that of the lock, "etcd". A row says for
	// which families it is.
	Name, Family string
	// TTL of the locks in the tests, and how long after the death of its holder a lock
	// may at the most stay taken.
	TTL, Death time.Duration
	// Offers is what may be asked of it. Rows leave out what a lock does not offer.
	Offers Offers
	// Start starts fresh servers for t.
	Start func(t testing.TB) *Servers
}

// ttl is that of the locks of all setups.
const ttl = 2 * time.Second

// setup returns a Backend that makes every promise, on the servers that start starts.
func setup(name, family string, start func(t testing.TB) *Servers) Backend {
	return Backend{Name: name, Family: family, TTL: ttl, Death: ttl + time.Second, Offers: Everything, Start: start}
}

// Offers are promises that not every lock makes.
type Offers struct {
	Tokens bool // a number that grows with each holder
	Lost   bool // the holder is told of a loss
	Late   bool // a release that comes after the loss says so
	Tidy   bool // nothing is left, on servers or in the process, when a row is over

	Shared, Permits bool // these kinds of locks, and downgrades
}

// shares are what a campaign takes of names, beside all.
func (o Offers) shares() (all []history.Share) {
	if o.Shared {
		all = append(all, history.Shared)
	}
	if o.Permits {
		all = append(all, history.Permits(1, 3), history.Permits(2, 3))
	}
	return all
}

// Servers are what a Backend runs on. Hooks that make no sense for it are nil.
type Servers struct {
	Backend Backend
	Access  Access
	// All are the servers that hold the data, Addrs their addresses: the first is the
	// master where there is one.
	All   []*servers.Server
	Addrs []string
	// Keeps: after a restart the servers know what they knew before.
	Keeps bool
	// Pictures is the folder for histories that no lock can have, and for pictures of them. Without it that is the one
	// that LOCKER_FAULTS_DIR names, or that for temporary files, so that they outlive the test.
	Pictures string

	// Destroy takes name from its holder at the server, as an operator would by hand.
	Destroy func(ctx context.Context, name string) error
	// Expire does the same, as a clock that jumps forward would.
	Expire func(ctx context.Context, name string) error
	// EndSession ends the session (the lease) of those who wait for name, or who hold it.
	EndSession func(ctx context.Context, name string, waiters bool) error
	// Litter lists what is left of name on the servers.
	Litter func(ctx context.Context, name string) ([]string, error)
	// Claims lists what of that is to go while the clients are open; nil: all of it.
	Claims func(ctx context.Context, name string) ([]string, error)
	// Plant puts something into the queue of name that is nobody's.
	Plant func(ctx context.Context, name, entry string) error
	// Waiting is how many wait at the servers for name; nil if waiters do not show there.
	Waiting func(ctx context.Context, name string) (int, error)
	// MoveLeader makes another member the leader.
	MoveLeader func(ctx context.Context) error
	// Leader is the member that leads now, by its place in All.
	Leader func(ctx context.Context) (int, error)
	// Failover kills the master, has the replica take its place, and tells the proxies.
	// With rejoin the dead one comes back as the replica.
	Failover func(ctx context.Context, nets []*Network) (rejoin func() error, err error)

	// What the kind of server has beyond that.
	Redis      []*servers.Redis
	Cluster    *servers.RedisCluster
	Replicated *servers.ReplicatedRedis
	Sentinel   *servers.RedisSentinel
	Etcd       []*servers.Etcd
}

// StartOn starts fresh servers of b, which end with t.
func StartOn(t testing.TB, b Backend) *Servers {
	t.Helper()
	s := b.Start(t)
	s.Backend = b
	return s
}

// WaitReady waits until all servers serve.
func (s *Servers) WaitReady(ctx context.Context) error {
	for _, m := range s.All {
		if err := m.WaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// reached are the addresses that clients connect to.
func (s *Servers) reached() []string {
	if s.Sentinel == nil {
		return s.Addrs
	}
	return slices.Concat(s.Addrs, s.Sentinel.SentinelAddrs())
}

// Backends are those of this project, each on every kind of servers that it is put to
// the test on.
var Backends = []Backend{
	Redis1, RedisEmpty, RedisReplica, RedisSentinel, RedisCluster,
	RedLock5,
	ZooKeeper1, ZooKeeper3,
	Etcd1, Etcd3,
}

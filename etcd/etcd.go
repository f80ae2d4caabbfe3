// Package etcd takes locks on an etcd cluster (3.4 or later):
//
//	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"localhost:2379"}, DialKeepAliveTime: 10 * time.Second})
//	l, err := etcd.New(client)
//	lock, err := l.Acquire(ctx, "orders/42")
//	defer lock.Release(ctx)
//
// Every claim has a key of its own, such as locker/orders%2F42#5f0c2a7be1d49c03.0, whose form is described in
// docs/design/etcd.md. "etcdctl get --prefix locker/" shows who holds and who waits. Deleting a key takes the lock away, which
// its holder is told within a second; a waiter whose key was deleted queues anew after some seconds, or when its turn comes.
//
// All keys of one Locker are under one lease, which is kept alive until Close; also those of [locker.WithLease], which thus end
// with it at the latest. etcd counts leases in whole seconds and grants none shorter than its election timeout allows (2 s as
// configured by default): a TTL is rounded up to that, and so is the time of [locker.AtLeast]. A new leader gives every lease
// its full time once more: when a holder has died and the leader changes as well, its locks are free a TTL after the change.
//
// # What it costs
//
// Acquiring and releasing is one request each, also for shared locks that are held together. Who has to wait makes one or two
// more, and mostly watches one key; for permits two or three more, of which one tells the next that it is granted. An idle
// waiter costs nothing but its Locker's lease. Holders read their keys twice a second, with one request for each 128 of them,
// or for as many as --max-txn-ops allows. The server checks a password for each renewal of a lease, three times in a TTL, and whenever a
// stream of watches is opened, but not for every wait.
//
// # The client
//
// New takes the client as it is: endpoints, TLS, user and password, and also confined to a part of the key space by package
// go.etcd.io/etcd/client/v3/namespace. Set DialKeepAliveTime: without it the client does not notice that a connection is dead
// until TCP gives up, which may take a quarter of an hour. The leases are then renewed by another connection, but acquisitions
// and releases wait. With a password the renewals wait too: the client logs in by the dead connection first. The Locker does
// not close the client.
//
// The user needs permission to read and write the prefix, "locker/". Servers before 3.4.20 and 3.5.7 refuse releases while they
// have no space left.
package etcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const backendName = "etcd"

// DefaultPrefix is what all keys begin with unless WithPrefix says otherwise.
const DefaultPrefix = "locker/"

type settings struct{ prefix string }

// WithPrefix sets what all keys begin with, for several independent groups of locks in one cluster. A "/" is added if it does
// not end with one. Lockers exclude each other only if their prefixes are equal. A prefix is not empty and holds no "#".
func WithPrefix(prefix string) locker.Option {
	return locker.BackendOption(func(s *settings) error {
		if prefix == "" || strings.Contains(prefix, mark) {
			return fmt.Errorf("prefix: want at least a byte, and no %q", mark)
		}
		s.prefix = strings.TrimSuffix(prefix, "/") + "/"
		return nil
	})
}

// New returns a Locker on the cluster that client is connected to. It sends
// nothing: the first request is that of the first acquisition.
func New(client *clientv3.Client, opts ...locker.Option) (locker.Locker, error) {
	b, cfg, err := open(client, opts)
	if err != nil {
		return nil, locker.InvalidOption(backendName, err)
	}
	return locker.New(b, cfg)
}

func open(client *clientv3.Client, opts []locker.Option) (*backend, *locker.Config, error) {
	s := settings{prefix: DefaultPrefix}
	cfg, err := locker.NewConfig(backendName, &s, opts...)
	switch {
	case err != nil:
		return nil, nil, err
	case client == nil || client.KV == nil || client.Lease == nil || client.Watcher == nil || client.ActiveConnection() == nil:
		return nil, nil, errors.New("nil client")
	case client.Ctx().Err() != nil:
		return nil, nil, fmt.Errorf("closed client: %w", context.Cause(client.Ctx()))
	}
	b := &backend{
		client: client, clock: cfg.Clock, log: cfg.Logger, ttl: cfg.TTL, patience: patience, prefix: s.prefix,
		id: fmt.Sprintf("%016x", rand.Uint64()), granting: make(chan struct{}, 1), keys: make(map[string]bool),
	}
	b.life, b.end = context.WithCancel(context.Background())
	return b, cfg, nil
}

// backend is the driver of one Locker.
type backend struct {
	client   *clientv3.Client
	clock    driver.Clock
	log      *slog.Logger
	ttl      time.Duration
	patience time.Duration // with a request; longer in tests
	prefix   string        // ends with "/"
	id       string        // of this Locker, in its keys

	life context.Context // ends with Close
	end  context.CancelFunc

	granting chan struct{} // taken by whoever grants the session's lease
	session  atomic.Pointer[session]

	checks atomic.Int64 // how often the holders' keys were read
	halved atomic.Int64 // how often claimsPerTxn was halved for this server

	keysMu sync.Mutex
	keys   map[string]bool // those of the claims of this Locker

	subscription subscription
}

func (b *backend) Traits() driver.Traits {
	return driver.Traits{
		Backend: backendName, Fair: true, Fenced: true, Shared: true, Permits: true,
		Inspect: true, Evict: true, Downgrade: true, Linger: true,
		Session: true, Prompt: true, Check: checkEvery,
		LeaseBySession: true, // a lease of its own would cost a claim two more requests
	}
}

// Close ends the session, and with its lease every key that may be left under it.
func (b *backend) Close(ctx context.Context) error {
	b.end()
	if s := b.session.Load(); s != nil {
		return b.revoke(ctx, s.lease)
	}
	return nil
}

// Package etcd takes locks on an etcd cluster (3.4 or later):
//
//	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"localhost:2379"}})
//	l, err := etcd.New(client)
//	lock, err := l.Acquire(ctx, "orders/42")
//	defer lock.Release(ctx)
//
// # On the server
//
// Every acquisition has a key of its own,
//
//	locker/orders%2F42/5f0c2a7be1d49c03.0
//
// named after the Locker and numbered; its value ends with the owner's text
// ([locker.WithOwner]). The keys of one name are
// its queue: the one with the lowest create revision holds the lock, and that
// revision is the fencing token. "etcdctl get --prefix locker/" shows who holds
// and who waits; deleting a key takes the lock away, which its holder is told
// within a second.
//
// All keys of one Locker are under one lease, which is granted at the first
// acquisition and kept alive until Close. etcd counts leases in whole seconds and
// grants none shorter than its election timeout allows (2 s as configured by
// default), so a TTL is rounded up to that. A new leader gives every lease its full
// time once more: when a holder has died and the leader changes as well, its locks
// are free a TTL after the change. An acquisition with [locker.WithLease] gets a
// lease of its own once it is granted.
//
// # What it costs
//
// Without competition, acquiring and releasing is one request each. Who has to
// wait watches only the key directly ahead of its own, so that a release wakes
// one waiter, and a waiter costs nothing but its Locker's lease. The waiter then makes sure
// of its place with one read, which any member can answer: that a key is gone does not say
// whether it was the holder's, nor whether the waiter's own is still there. Where the same
// Lockers compete for a name again and again, in the same order, the release answers both and
// the read is not needed; for that they have one more key each, until Close. When the next
// in line is of the same Locker, the release itself hands the lock over, without that, and has
// the goroutine after that one join the queue: many of one Locker cost one request each. A
// lock held for longer than a moment has its key watched, which is one request; a Locker
// that holds more than 16 asks for all the others at once, twice a second.
//
// # The client
//
// New takes the client as it is: endpoints, TLS, user and password, and also confined
// to a part of the key space by package go.etcd.io/etcd/client/v3/namespace. Set
// DialKeepAliveTime: without it the client notices only at the next renewal
// that a machine is gone which did not close its connections. The Locker does not
// close the client.
//
// The user needs permission to read and write the prefix, "locker/".
package etcd

import (
	"context"
	"fmt"
	"strings"

	"github.com/seed80cd6120/locker"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// DefaultPrefix is what all keys begin with unless WithPrefix says otherwise.
const DefaultPrefix = "locker/"

type settings struct {
	prefix string
	err    error
}

// WithPrefix sets what all keys begin with, for several independent groups of locks in
// one cluster. A "/" is added if it does not end with one. Lockers exclude each
// other only if their prefixes are equal.
func WithPrefix(prefix string) locker.Option {
	return locker.BackendOption(func(s *settings) error {
		if prefix == "" {
			s.err = fmt.Errorf("%w: empty prefix", locker.ErrInvalidOption)
		}
		s.prefix = strings.TrimSuffix(prefix, "/") + "/"
		return s.err
	})
}

// New returns a Locker on the cluster that client is connected to. It sends
// nothing: the first request is that of the first acquisition.
func New(client *clientv3.Client, opts ...locker.Option) (locker.Locker, error) {
	d, cfg, err := open(client, opts)
	if err != nil {
		return nil, &locker.Error{Op: "open", Backend: backendName, Err: err}
	}
	return locker.New(d, cfg)
}

func open(client *clientv3.Client, opts []locker.Option) (*backend, *locker.Config, error) {
	s := settings{prefix: DefaultPrefix}
	cfg, err := locker.NewConfig("etcd", &s, opts...)
	if err != nil {
		return nil, nil, err
	}
	switch {
	case s.err != nil:
		return nil, nil, s.err
	case client == nil || client.KV == nil || client.Lease == nil || client.ActiveConnection() == nil:
		return nil, nil, fmt.Errorf("%w: nil client", locker.ErrInvalidOption)
	case client.Ctx().Err() != nil:
		return nil, nil, fmt.Errorf("%w: closed client: %w", locker.ErrInvalidOption, context.Cause(client.Ctx()))
	}
	return newBackend(client, cfg, s.prefix), cfg, nil
}

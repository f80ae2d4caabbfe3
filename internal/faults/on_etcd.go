package faults

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/seed80cd6120/locker/conformance"
	"github.com/seed80cd6120/locker/etcd"
	"github.com/seed80cd6120/locker/internal/names"
	"github.com/seed80cd6120/locker/internal/servers"
)

func init() {
	Register("etcd", func(_ context.Context, a Access) (conformance.Client, error) {
		c, err := EtcdClient(a)
		if err != nil {
			return nil, err
		}
		l, err := etcd.New(c, a.Options()...)
		return ClientOf(l, err, c.Close)
	})
}

// EtcdClient makes an etcd client that reaches the servers as a says.
func EtcdClient(a Access) (*clientv3.Client, error) {
	var endpoints []string
	for _, addr := range a.Addrs {
		endpoints = append(endpoints, a.Through(addr))
	}
	var secure *tls.Config
	if a.tls != nil {
		secure = a.tls(a.Addrs[0])
	}
	return clientv3.New(clientv3.Config{
		Endpoints:            endpoints,
		DialTimeout:          5 * time.Second,
		DialKeepAliveTime:    2 * time.Second,
		DialKeepAliveTimeout: time.Second,
		Username:             a.User,
		Password:             a.Password,
		TLS:                  secure,
		Logger:               zap.NewNop(),
	})
}

// Etcd1 and Etcd3 are etcd with one member and with three.
var (
	Etcd1 = onEtcd("etcd-1")
	Etcd3 = onEtcd("etcd-3")
)

var etcdMembers = map[string]int{"etcd-1": 1, "etcd-3": 3}

func onEtcd(name string) Backend {
	return setup(name, etcdFamily, func(t testing.TB) *Servers { return etcdServers(t, etcdMembers[name], servers.EtcdOptions{}) })
}

func etcdServers(t testing.TB, n int, o servers.EtcdOptions) *Servers {
	t.Helper()
	return OnEtcd("etcd", func(name string) string { return "locker/" + names.Escape(name) + "#" }, servers.NewEtcdCluster(t, n, o))
}

// OnEtcd returns what a kind of lock stands on whose keys for a name begin with what
// queue says.
func OnEtcd(kind string, queue func(name string) string, c *servers.EtcdCluster) *Servers {
	n := len(c.Members)
	s := &Servers{Keeps: true, Etcd: c.Members}
	for _, e := range c.Members {
		s.All = append(s.All, e.Server)
		s.Addrs = append(s.Addrs, e.Addr())
	}
	s.Access = Access{Kind: kind, Addrs: s.Addrs, TTL: ttl}
	s.Destroy = func(ctx context.Context, name string) error {
		return s.onEtcd(ctx, queue(name), func(c *clientv3.Client, keys []entry) error {
			if len(keys) == 0 {
				return nil
			}
			return servers.Poll(ctx, func(ctx context.Context) error { // again if the leader changes
				_, err := c.Delete(ctx, keys[0].key)
				return err
			})
		})
	}
	s.EndSession = func(ctx context.Context, name string, waiters bool) error {
		return s.onEtcd(ctx, queue(name), func(c *clientv3.Client, keys []entry) error {
			for i, k := range keys {
				if (i > 0) != waiters {
					continue
				}
				if err := revoke(ctx, c, k.lease); err != nil {
					return err
				}
			}
			return nil
		})
	}
	s.Waiting = func(ctx context.Context, name string) (n int, err error) {
		err = s.onEtcd(ctx, queue(name), func(_ *clientv3.Client, keys []entry) error {
			n = max(0, len(keys)-1)
			return nil
		})
		return n, err
	}
	list := func(ctx context.Context, name string, leases bool) (left []string, err error) {
		err = s.onEtcd(ctx, queue(name), func(c *clientv3.Client, keys []entry) error {
			for _, k := range keys {
				left = append(left, "key "+k.key)
			}
			if !leases {
				return nil
			}
			all, err := c.Leases(ctx)
			if err != nil {
				return err
			}
			for _, l := range all.Leases {
				left = append(left, fmt.Sprintf("lease %x", l.ID))
			}
			return nil
		})
		return left, err
	}
	s.Litter = func(ctx context.Context, name string) ([]string, error) { return list(ctx, name, true) }
	s.Claims = func(ctx context.Context, name string) ([]string, error) { return list(ctx, name, false) } // a client keeps its lease
	s.Leader = func(ctx context.Context) (int, error) {
		leader, err := c.Leader(ctx)
		for i, e := range c.Members {
			if e == leader {
				return i, nil
			}
		}
		return 0, err
	}
	if n > 1 {
		s.MoveLeader = func(ctx context.Context) error {
			i, err := s.Leader(ctx)
			if err != nil {
				return err
			}
			return c.MoveLeader(ctx, c.Members[(i+1)%n])
		}
	}
	return s
}

// revoke ends a lease; it returns nil, too, if that has expired meanwhile.
func revoke(ctx context.Context, c *clientv3.Client, lease clientv3.LeaseID) error {
	if _, err := c.Revoke(ctx, lease); !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return err
	}
	return nil
}

type entry struct {
	key   string
	lease clientv3.LeaseID
}

// onEtcd does something with the keys of a queue, the holder's first.
func (s *Servers) onEtcd(ctx context.Context, queue string, do func(c *clientv3.Client, keys []entry) error) error {
	c, err := EtcdClient(s.Access)
	if err != nil {
		return err
	}
	defer c.Close()
	found, err := c.Get(ctx, queue, clientv3.WithPrefix(),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	if err != nil {
		return err
	}
	var keys []entry
	for _, kv := range found.Kvs {
		keys = append(keys, entry{string(kv.Key), clientv3.LeaseID(kv.Lease)})
	}
	return do(c, keys)
}

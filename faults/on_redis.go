package faults

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/seed80cd6120/locker/conformance"
	"github.com/seed80cd6120/locker/internal/servers"
	"github.com/seed80cd6120/locker/redis"
)

func init() {
	Register("redis", func(_ context.Context, a Access) (conformance.Client, error) {
		return onRedis(a, RedisClient(a, a.Addrs[0]))
	})
	Register("redis-sentinel", func(_ context.Context, a Access) (conformance.Client, error) {
		return onRedis(a, goredis.NewFailoverClient(&goredis.FailoverOptions{
			MasterName:    a.Master,
			SentinelAddrs: a.Addrs,
			Dialer:        a.dial,
		}))
	})
	Register("redis-cluster", func(_ context.Context, a Access) (conformance.Client, error) {
		return onRedis(a, goredis.NewClusterClient(&goredis.ClusterOptions{
			Addrs:                    a.Addrs,
			Dialer:                   a.dial,
			MaintNotificationsConfig: noNotifications(),
		}))
	})
}

func onRedis(a Access, c goredis.UniversalClient) (conformance.Client, error) {
	l, err := redis.New(c, a.options()...)
	return of(l, err, c.Close)
}

// RedisClient makes a go-redis client with its defaults, but for the maintenance
// notifications, that reaches the server at addr as a says.
func RedisClient(a Access, addr string) *goredis.Client {
	return goredis.NewClient(&goredis.Options{Addr: addr, Dialer: a.dial, MaintNotificationsConfig: noNotifications()})
}

func noNotifications() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

func (a Access) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	d := net.Dialer{Timeout: 5 * time.Second, KeepAlive: 5 * time.Minute}
	return d.DialContext(ctx, network, a.Through(addr))
}

const redisTTL = 2 * time.Second

// keepsData are the arguments of a Redis that knows after kill -9 what it knew before.
// What it has written is the system's then; to wait for the disk would help only against
// a machine that fails.
var keepsData = []string{"--appendonly", "yes", "--appendfsync", "no"}

// Redis1 is one Redis server that keeps its data.
var Redis1 = Backend{
	Name: "redis-1", Family: "redis", TTL: redisTTL, Death: redisTTL + time.Second, Offers: everything,
	Start: func(t testing.TB) *Servers {
		r := servers.NewRedis(t, servers.RedisOptions{Args: keepsData})
		s := redisServers("redis", []*servers.Redis{r})
		s.Keeps = true
		return s
	},
}

// RedisEmpty is one Redis server that is empty after a restart.
var RedisEmpty = Backend{
	Name: "redis-empty", Family: "redis", TTL: redisTTL, Death: redisTTL + time.Second, Offers: everything,
	Start: func(t testing.TB) *Servers {
		return redisServers("redis", []*servers.Redis{servers.NewRedis(t, servers.RedisOptions{})})
	},
}

// RedisReplica is a master with a replica and nobody to fail over but the row itself.
var RedisReplica = Backend{
	Name: "redis-replica", Family: "redis", TTL: redisTTL, Death: redisTTL + time.Second, Offers: everything,
	Start: func(t testing.TB) *Servers {
		g := servers.NewReplicatedRedis(t, 1, servers.RedisOptions{Args: keepsData})
		s := redisServers("redis", g.All())
		s.Replicated, s.Keeps = g, true
		s.Access.Addrs = s.Addrs[:1]
		s.Failover = s.failOver
		return s
	},
}

// RedisSentinel is a master and a replica that Sentinels fail over.
var RedisSentinel = Backend{
	Name: "redis-sentinel", Family: "redis", TTL: redisTTL, Death: redisTTL + time.Second, Offers: everything,
	Start: func(t testing.TB) *Servers {
		g := servers.NewRedisSentinel(t, servers.RedisOptions{Args: keepsData})
		s := redisServers("redis-sentinel", g.All())
		s.Sentinel, s.Replicated, s.Keeps = g, g.ReplicatedRedis, true
		s.Access.Addrs, s.Access.Master = g.SentinelAddrs(), g.MasterName
		s.Failover = s.sentinelFailOver
		return s
	},
}

// RedisCluster is a Cluster of three masters.
var RedisCluster = Backend{
	Name: "redis-cluster", Family: "redis", TTL: redisTTL, Death: redisTTL + time.Second, Offers: everything,
	Start: func(t testing.TB) *Servers {
		c := servers.NewRedisCluster(t, 3, servers.RedisOptions{Args: keepsData})
		s := redisServers("redis-cluster", c.Nodes)
		s.Cluster, s.Keeps = c, true
		return s
	},
}

var everything = Offers{Tokens: true, Lost: true, Tidy: true}

func redisServers(kind string, all []*servers.Redis) *Servers { return OnRedis(kind, "*lock:", all) }

// OnRedis returns what a kind of lock stands on whose keys end with the name of the lock,
// after what matches before.
func OnRedis(kind, before string, all []*servers.Redis) *Servers {
	s := &Servers{Redis: all}
	for _, r := range all {
		s.All = append(s.All, r.Server)
		s.Addrs = append(s.Addrs, r.Addr())
	}
	s.Access = Access{Kind: kind, Addrs: s.Addrs, TTL: redisTTL}
	s.Destroy = func(ctx context.Context, name string) error {
		return s.onKeys(ctx, before+name, func(r *servers.Redis, key string) error { return write(ctx, r, "DEL", key) })
	}
	s.Expire = func(ctx context.Context, name string) error {
		return s.onKeys(ctx, before+name, func(r *servers.Redis, key string) error { return write(ctx, r, "PEXPIRE", key, "1") })
	}
	s.EndSession = func(ctx context.Context, name string, waiters bool) error {
		if !waiters {
			return s.Destroy(ctx, name)
		}
		return s.onQueues(ctx, name, func(r *servers.Redis, key string) error { return write(ctx, r, "DEL", key) })
	}
	s.Waiting = func(ctx context.Context, name string) (most int, err error) {
		err = s.onQueues(ctx, name, func(r *servers.Redis, key string) error {
			n, err := length(ctx, r, key)
			most = max(most, n)
			return err
		})
		return most, err
	}
	s.Litter = func(ctx context.Context, name string) (left []string, err error) {
		err = s.onKeys(ctx, "*"+name+"*", func(r *servers.Redis, key string) error {
			left = append(left, r.Addr()+" "+key)
			return nil
		})
		return left, err
	}
	return s
}

// onKeys does something to every key that matches, on every server.
func (s *Servers) onKeys(ctx context.Context, pattern string, do func(r *servers.Redis, key string) error) error {
	for _, r := range s.Redis {
		v, err := r.Do(ctx, "KEYS", pattern)
		if err != nil {
			return err
		}
		keys, _ := v.([]any)
		for _, key := range keys {
			if err := do(r, fmt.Sprint(key)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Servers) onQueues(ctx context.Context, name string, do func(r *servers.Redis, key string) error) error {
	err := s.onKeys(ctx, "*queue:"+name, do)
	if err == nil {
		err = s.onKeys(ctx, "*wait:"+name, do)
	}
	return err
}

// write sends a command that a replica need not carry out.
func write(ctx context.Context, r *servers.Redis, args ...string) error {
	_, err := r.Do(ctx, args...)
	if err != nil && strings.Contains(err.Error(), "READONLY") {
		return nil
	}
	return err
}

func length(ctx context.Context, r *servers.Redis, key string) (int, error) {
	kind, err := r.Do(ctx, "TYPE", key)
	if err != nil {
		return 0, err
	}
	count := map[any]string{"list": "LLEN", "zset": "ZCARD", "hash": "HLEN", "set": "SCARD"}[kind]
	if count == "" {
		return 0, nil // it has just gone
	}
	n, err := r.Do(ctx, count, key)
	i, _ := n.(int64)
	return int(i), err
}

// failOver kills the master and makes the replica the new one, to which all networks
// lead from then on.
func (s *Servers) failOver(ctx context.Context, nets []*Network) (rejoin func() error, err error) {
	old, heir, err := s.roles(ctx)
	if err != nil {
		return nil, err
	}
	if err := old.Kill(); err != nil {
		return nil, err
	}
	if _, err := heir.Do(ctx, "REPLICAOF", "NO", "ONE"); err != nil {
		return nil, err
	}
	for _, n := range nets {
		for _, p := range n.Proxies {
			p.SetTarget(heir.Addr())
			p.Cut()
		}
	}
	return func() error {
		if err := old.RestartEmpty(ctx); err != nil {
			return err
		}
		host, port, _ := strings.Cut(heir.Addr(), ":")
		if _, err := old.Do(ctx, "REPLICAOF", host, port); err != nil {
			return err
		}
		return s.inStep(ctx, old)
	}, nil
}

// inStep waits until a replica has its master's data.
func (s *Servers) inStep(ctx context.Context, replica *servers.Redis) error {
	for {
		v, err := replica.Do(ctx, "INFO", "replication")
		if text, _ := v.(string); err == nil && strings.Contains(text, "master_link_status:up") {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("the replica at %s has not reached its master", replica.Addr()), err, ctx.Err())
		}
	}
}

// roles returns who is the master, and who is not.
func (s *Servers) roles(ctx context.Context) (master, replica *servers.Redis, err error) {
	for _, r := range s.Redis {
		v, err := r.Do(ctx, "ROLE")
		if err != nil {
			return nil, nil, err
		}
		if role, _ := v.([]any); len(role) > 0 && role[0] == "master" {
			master = r
		} else {
			replica = r
		}
	}
	if master == nil || replica == nil {
		return nil, nil, errors.New("there are not one master and one replica")
	}
	return master, replica, nil
}

// sentinelFailOver kills the master and waits until the Sentinels have made the other one
// master.
func (s *Servers) sentinelFailOver(ctx context.Context, _ []*Network) (rejoin func() error, err error) {
	old, err := s.Sentinel.CurrentMaster(ctx)
	if err != nil {
		return nil, err
	}
	if err := old.Kill(); err != nil {
		return nil, err
	}
	for {
		now, err := s.Sentinel.CurrentMaster(ctx)
		if err == nil && now != old {
			break
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return nil, errors.Join(errors.New("the Sentinels have not failed over"), err, ctx.Err())
		}
	}
	return func() error { return errors.Join(old.Restart(ctx), s.oneMaster(ctx)) }, nil
}

// oneMaster waits until the Sentinels agree on a master, the other server is its replica,
// and has been for longer than the Sentinels need to find something wrong with that.
func (s *Servers) oneMaster(ctx context.Context) error {
	var since time.Time
	for {
		master, err := s.Sentinel.CurrentMaster(ctx)
		is, replica, err2 := s.roles(ctx)
		switch {
		case err != nil || err2 != nil || master != is:
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) > 1500*time.Millisecond:
			return s.inStep(ctx, replica)
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return errors.Join(errors.New("there is not one master"), err, err2, ctx.Err())
		}
	}
}

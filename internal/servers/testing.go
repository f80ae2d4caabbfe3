package servers

import (
	"context"
	"strings"
	"sync"
	"testing"
)

// Need skips the test under "go test -short", which runs only what needs no server.
// Every function here that takes a testing.TB calls it.
func Need(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a server; not run with -short")
	}
}

type closer interface{ Close() error }

// fresh starts something for one test.
func fresh[T closer](t testing.TB, start func(ctx context.Context) (T, error), logs func(T) []*Server) T {
	t.Helper()
	Need(t)
	v, err := start(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, s := range logs(v) {
				if text := lastLines(s.Log(), 10); text != "" {
					t.Logf("the log of %s at %s ends:\n%s", s.kind, s.addr, text)
				}
			}
		}
		if err := v.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return v
}

// lastLines returns the end of a log, each line cut to a length that people read.
func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	lines = lines[max(0, len(lines)-n):]
	for i, line := range lines {
		if len(line) > 200 {
			lines[i] = line[:200] + "..."
		}
	}
	return strings.Join(lines, "\n")
}

// NewRedis starts a Redis server for the test t.
func NewRedis(t testing.TB, opts RedisOptions) *Redis {
	t.Helper()
	return fresh(t,
		func(ctx context.Context) (*Redis, error) { return StartRedis(ctx, opts) },
		func(r *Redis) []*Server { return []*Server{r.Server} })
}

type redisSet []*Redis

func (s redisSet) Close() error { return closeRedis(s) }

// NewRedisSet starts n independent Redis servers for the test t.
func NewRedisSet(t testing.TB, n int, opts RedisOptions) []*Redis {
	t.Helper()
	return fresh(t,
		func(ctx context.Context) (redisSet, error) { return StartRedisSet(ctx, n, opts) },
		func(s redisSet) []*Server { return redisServers(s) })
}

// NewReplicatedRedis starts a Redis server with replicas for the test t.
func NewReplicatedRedis(t testing.TB, replicas int, opts RedisOptions) *ReplicatedRedis {
	t.Helper()
	return fresh(t,
		func(ctx context.Context) (*ReplicatedRedis, error) { return StartReplicatedRedis(ctx, replicas, opts) },
		func(g *ReplicatedRedis) []*Server { return redisServers(g.All()) })
}

// NewRedisSentinel starts a master, a replica and three Sentinels for the test t.
func NewRedisSentinel(t testing.TB, opts RedisOptions) *RedisSentinel {
	t.Helper()
	return fresh(t,
		func(ctx context.Context) (*RedisSentinel, error) { return StartRedisSentinel(ctx, opts) },
		func(g *RedisSentinel) []*Server { return redisServers(append(g.All(), g.Sentinels...)) })
}

// NewRedisCluster starts a Redis Cluster of n masters for the test t.
func NewRedisCluster(t testing.TB, n int, opts RedisOptions) *RedisCluster {
	t.Helper()
	return fresh(t,
		func(ctx context.Context) (*RedisCluster, error) { return StartRedisCluster(ctx, n, opts) },
		func(c *RedisCluster) []*Server { return redisServers(c.Nodes) })
}

func redisServers(all []*Redis) []*Server {
	var s []*Server
	for _, r := range all {
		s = append(s, r.Server)
	}
	return s
}

// NewZooKeeper starts a ZooKeeper server for the test t.
func NewZooKeeper(t testing.TB, opts ZooKeeperOptions) *ZooKeeper {
	t.Helper()
	return fresh(t,
		func(ctx context.Context) (*ZooKeeper, error) { return StartZooKeeper(ctx, opts) },
		func(z *ZooKeeper) []*Server { return []*Server{z.Server} })
}

// NewZooKeeperEnsemble starts n ZooKeeper servers that are one ensemble for the test t.
func NewZooKeeperEnsemble(t testing.TB, n int, opts ZooKeeperOptions) *ZooKeeperEnsemble {
	t.Helper()
	return fresh(t,
		func(ctx context.Context) (*ZooKeeperEnsemble, error) { return StartZooKeeperEnsemble(ctx, n, opts) },
		func(e *ZooKeeperEnsemble) []*Server {
			var s []*Server
			for _, z := range e.Members {
				s = append(s, z.Server)
			}
			return s
		})
}

// NewEtcd starts an etcd server for the test t.
func NewEtcd(t testing.TB, opts EtcdOptions) *Etcd {
	t.Helper()
	return fresh(t,
		func(ctx context.Context) (*Etcd, error) { return StartEtcd(ctx, opts) },
		func(e *Etcd) []*Server { return []*Server{e.Server} })
}

// NewEtcdCluster starts n etcd servers that are one cluster for the test t.
func NewEtcdCluster(t testing.TB, n int, opts EtcdOptions) *EtcdCluster {
	t.Helper()
	return fresh(t,
		func(ctx context.Context) (*EtcdCluster, error) { return StartEtcdCluster(ctx, n, opts) },
		func(c *EtcdCluster) []*Server {
			var s []*Server
			for _, e := range c.Members {
				s = append(s, e.Server)
			}
			return s
		})
}

// shared is a server that is started by the first who asks.
type shared[T any] struct {
	once sync.Once
	v    T
	err  error
}

func (s *shared[T]) get(t testing.TB, start func(ctx context.Context) (T, error)) T {
	t.Helper()
	Need(t)
	s.once.Do(func() { s.v, s.err = start(context.Background()) })
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.v
}

var (
	sharedRedis     shared[*Redis]
	sharedRedisSet  shared[[]*Redis]
	sharedZooKeeper shared[*ZooKeeper]
	sharedEtcd      shared[*Etcd]
)

// SharedRedis returns a plain Redis server that all tests of the binary use. Leave it
// running and use names of your own; who wants to break a server takes a fresh one.
func SharedRedis(t testing.TB) *Redis {
	t.Helper()
	return sharedRedis.get(t, func(ctx context.Context) (*Redis, error) { return StartRedis(ctx, RedisOptions{}) })
}

// SharedRedisSet returns five independent Redis servers that all tests of the binary
// use, on the terms of [SharedRedis].
func SharedRedisSet(t testing.TB) []*Redis {
	t.Helper()
	return sharedRedisSet.get(t, func(ctx context.Context) ([]*Redis, error) { return StartRedisSet(ctx, 5, RedisOptions{}) })
}

// SharedZooKeeper returns a plain ZooKeeper server that all tests of the binary use,
// on the terms of [SharedRedis].
func SharedZooKeeper(t testing.TB) *ZooKeeper {
	t.Helper()
	return sharedZooKeeper.get(t, func(ctx context.Context) (*ZooKeeper, error) {
		return StartZooKeeper(ctx, ZooKeeperOptions{})
	})
}

// SharedEtcd returns a plain etcd server that all tests of the binary use, on the terms
// of [SharedRedis].
func SharedEtcd(t testing.TB) *Etcd {
	t.Helper()
	return sharedEtcd.get(t, func(ctx context.Context) (*Etcd, error) { return StartEtcd(ctx, EtcdOptions{}) })
}

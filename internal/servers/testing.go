package servers

import (
	"context"
	"flag"
	"log"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Main runs the tests of a package, eight of the parallel ones at once, stops all servers, and ends the process.
func Main(m *testing.M) {
	AtOnce(8)
	code := m.Run()
	if err := StopAll(); err != nil {
		log.Print(err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// AtOnce has n of the parallel tests run at once unless -parallel says otherwise: they wait more than they work.
// It parses the flags, and leaves out the examples under "go test -short", since they need servers.
func AtOnce(n int) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = flag.Set("test.parallel", strconv.Itoa(n))
	}
	if testing.Short() {
		_ = flag.Set("test.skip", "^Example")
	}
}

// Need skips the test under "go test -short", which runs only what needs no server.
// Every function here that takes a testing.TB calls it.
func Need(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a server; not run with -short")
	}
}

// fresh starts something for one test.
func fresh[T part, O any](t testing.TB, start func(context.Context, O) (T, error), opts O) T {
	t.Helper()
	Need(t)
	v, err := start(context.Background(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, s := range v.servers() {
				if text := lastLines(s.Log(), 10); text != "" {
					t.Logf("the log of %s at %s ends:\n%s", s.kind, s.addr, text)
				}
			}
		}
		if err := closeAll(v.servers()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return v
}

// many makes of a function that starts n servers one that starts so many.
func many[T, O any](n int, start func(context.Context, int, O) (T, error)) func(context.Context, O) (T, error) {
	return func(ctx context.Context, opts O) (T, error) { return start(ctx, n, opts) }
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
	return fresh(t, StartRedis, opts)
}

type redisSet []*Redis

func (s redisSet) servers() []*Server { return serversOf(s) }

// NewRedisSet starts n independent Redis servers for the test t.
func NewRedisSet(t testing.TB, n int, opts RedisOptions) []*Redis {
	t.Helper()
	return fresh(t, func(ctx context.Context, opts RedisOptions) (redisSet, error) {
		return StartRedisSet(ctx, n, opts)
	}, opts)
}

// NewReplicatedRedis starts a Redis server with replicas for the test t.
func NewReplicatedRedis(t testing.TB, replicas int, opts RedisOptions) *ReplicatedRedis {
	t.Helper()
	return fresh(t, many(replicas, StartReplicatedRedis), opts)
}

// NewRedisSentinel starts a master, a replica and three Sentinels for the test t.
func NewRedisSentinel(t testing.TB, opts RedisOptions) *RedisSentinel {
	t.Helper()
	return fresh(t, StartRedisSentinel, opts)
}

// NewRedisCluster starts a Redis Cluster of n masters for the test t.
func NewRedisCluster(t testing.TB, n int, opts RedisOptions) *RedisCluster {
	t.Helper()
	return fresh(t, many(n, StartRedisCluster), opts)
}

// NewZooKeeper starts a ZooKeeper server for the test t.
func NewZooKeeper(t testing.TB, opts ZooKeeperOptions) *ZooKeeper {
	t.Helper()
	return fresh(t, StartZooKeeper, opts)
}

// NewZooKeeperEnsemble starts n ZooKeeper servers that are one ensemble for the test t.
func NewZooKeeperEnsemble(t testing.TB, n int, opts ZooKeeperOptions) *ZooKeeperEnsemble {
	t.Helper()
	return fresh(t, many(n, StartZooKeeperEnsemble), opts)
}

// NewEtcd starts an etcd server for the test t.
func NewEtcd(t testing.TB, opts EtcdOptions) *Etcd {
	t.Helper()
	return fresh(t, StartEtcd, opts)
}

// NewEtcdCluster starts n etcd servers that are one cluster for the test t.
func NewEtcdCluster(t testing.TB, n int, opts EtcdOptions) *EtcdCluster {
	t.Helper()
	return fresh(t, many(n, StartEtcdCluster), opts)
}

// NewPostgres starts a PostgreSQL server for the test t.
func NewPostgres(t testing.TB, opts PostgresOptions) *Postgres {
	t.Helper()
	return fresh(t, StartPostgres, opts)
}

// NewMariaDB starts a MariaDB server for the test t.
func NewMariaDB(t testing.TB, opts MariaDBOptions) *MariaDB {
	t.Helper()
	return fresh(t, StartMariaDB, opts)
}

// NewPostgresStandby starts a server for the test t that follows primary.
func NewPostgresStandby(t testing.TB, primary *Postgres) *Postgres {
	t.Helper()
	return fresh(t, StartPostgresStandby, primary)
}

// NewPgBouncer starts a pooler for the test t before a server.
func NewPgBouncer(t testing.TB, p *Postgres) *PgBouncer {
	t.Helper()
	return fresh(t, StartPgBouncer, p)
}

// shared starts something once, when the first test asks for it.
func shared[T, O any](start func(context.Context, O) (T, error)) func() (T, error) {
	return sync.OnceValues(func() (T, error) {
		var plain O
		return start(context.Background(), plain)
	})
}

var (
	sharedRedis     = shared(StartRedis)
	sharedRedisSet  = shared(many(5, StartRedisSet))
	sharedZooKeeper = shared(StartZooKeeper)
	sharedEtcd      = shared(StartEtcd)
	sharedPostgres  = shared(StartPostgres)
	sharedMariaDB   = shared(StartMariaDB)
)

func take[T any](t testing.TB, start func() (T, error)) T {
	t.Helper()
	Need(t)
	v, err := start()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// SharedRedis returns a plain Redis server that all tests of the binary use. Leave it
// running and use names of your own; who wants to break a server takes a fresh one.
func SharedRedis(t testing.TB) *Redis { t.Helper(); return take(t, sharedRedis) }

// SharedRedisSet returns five independent Redis servers that all tests of the binary
// use, on the terms of [SharedRedis].
func SharedRedisSet(t testing.TB) []*Redis { t.Helper(); return take(t, sharedRedisSet) }

// SharedZooKeeper returns a plain ZooKeeper server that all tests of the binary use,
// on the terms of [SharedRedis].
func SharedZooKeeper(t testing.TB) *ZooKeeper { t.Helper(); return take(t, sharedZooKeeper) }

// SharedEtcd returns a plain etcd server that all tests of the binary use, on the terms
// of [SharedRedis].
func SharedEtcd(t testing.TB) *Etcd { t.Helper(); return take(t, sharedEtcd) }

// SharedPostgres returns a PostgreSQL server that all tests of the binary use, on the terms of
// [SharedRedis].
func SharedPostgres(t testing.TB) *Postgres { t.Helper(); return take(t, sharedPostgres) }

// SharedMariaDB returns a MariaDB server that all tests of the binary use, on the terms of
// [SharedRedis].
func SharedMariaDB(t testing.TB) *MariaDB { t.Helper(); return take(t, sharedMariaDB) }

// Package migrate_test shows that programs with the old and with the new lock exclude each other during a migration,
// as the pages in docs/migrate say. The old locks are those of the real libraries.
package migrate_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net/url"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/go-zookeeper/zk"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/benchmarks/dial"
	"github.com/seed80cd6120/locker/etcd"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/servers"
	"github.com/seed80cd6120/locker/internal/sidebyside"
	"github.com/seed80cd6120/locker/memory"
	"github.com/seed80cd6120/locker/redis"
	"github.com/seed80cd6120/locker/zookeeper"
)

func TestMain(m *testing.M) { servers.Main(m) }

const name = "orders/42"

var must = locktest.Must

type program = sidebyside.Program

// pair is two programs of which one has the name at a time.
type pair map[string]program

// exclude tests each of the programs against each other one, in both orders.
func (p pair) exclude(t *testing.T) {
	for a, first := range p {
		for b, second := range p {
			if a != b {
				t.Run(a+" before "+b, func(t *testing.T) { sidebyside.Exclude(t, first, second) })
			}
		}
	}
}

// migrate tests each step of a migration against the next one: programs with the old lock, with both, and with the new one.
// A program with both, the new one of a Locker that nobody else has, is one with the old lock.
func migrate(t *testing.T, l locker.Locker, both func(l locker.Locker) program) {
	nobodys, err := memory.New()
	must(t, err)
	t.Cleanup(func() { _ = nobodys.Close(context.Background()) })
	pair{"old": both(nobodys), "both": both(l)}.exclude(t)
	pair{"both": both(l), "new": newOnly(l)}.exclude(t)
}

// newOnly is the program after the migration.
func newOnly(l locker.Locker) program {
	return func(ctx context.Context, work func(context.Context) error) error {
		return locker.Do(ctx, l, name, func(ctx context.Context, lock *locker.Lock) error {
			return work(ctx)
		})
	}
}

func onRedis(t *testing.T) (redislock.RedisClient, *redsync.Redsync, locker.Locker) {
	server := servers.NewRedis(t, servers.RedisOptions{})
	client := dial.Redis(server.Addr())
	t.Cleanup(func() { client.Close() })
	l, err := redis.New(client)
	must(t, err)
	t.Cleanup(func() { _ = l.Close(context.Background()) })
	return client, redsync.New(goredis.NewPool(client)), l
}

func TestRedsync(t *testing.T) {
	_, rs, l := onRedis(t)
	migrate(t, l, func(l locker.Locker) program {
		return func(ctx context.Context, work func(context.Context) error) error {
			mutex := rs.NewMutex(name, redsync.WithTries(1000))
			if err := mutex.LockContext(ctx); err != nil {
				return err
			}
			defer mutex.UnlockContext(context.WithoutCancel(ctx))
			return locker.Do(ctx, l, name, func(ctx context.Context, lock *locker.Lock) error {
				return work(ctx)
			})
		}
	})
}

// key returns the key under which package redis keeps the holder of name.
func key(name string) string {
	sum := fnv.New32a()
	sum.Write([]byte(name))
	return fmt.Sprintf("locker:{%02x}:lock:%s", sum.Sum32()>>24, name)
}

// An old lock on the very key excludes the new one without any step between.
func TestRedsyncOnTheSameKey(t *testing.T) {
	_, rs, l := onRedis(t)
	old := func(ctx context.Context, work func(context.Context) error) error {
		mutex := rs.NewMutex(key(name), redsync.WithTries(1000), redsync.WithExpiry(2*time.Second))
		if err := mutex.LockContext(ctx); err != nil {
			return err
		}
		defer mutex.UnlockContext(context.WithoutCancel(ctx))
		return work(ctx)
	}
	pair{"old": old, "new": newOnly(l)}.exclude(t)
}

func TestRedislock(t *testing.T) {
	client, _, l := onRedis(t)
	locks := redislock.New(client)
	migrate(t, l, func(l locker.Locker) program {
		return func(ctx context.Context, work func(context.Context) error) error {
			lock, err := locks.Obtain(ctx, name, 10*time.Second, &redislock.Options{RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond)})
			if err != nil {
				return err
			}
			defer lock.Release(context.WithoutCancel(ctx))
			return locker.Do(ctx, l, name, func(ctx context.Context, lock *locker.Lock) error {
				return work(ctx)
			})
		}
	})
}

func TestRedislockOnTheSameKey(t *testing.T) {
	client, _, l := onRedis(t)
	locks := redislock.New(client)
	old := func(ctx context.Context, work func(context.Context) error) error {
		lock, err := locks.Obtain(ctx, key(name), 2*time.Second, &redislock.Options{RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond)})
		if err != nil {
			return err
		}
		defer lock.Release(context.WithoutCancel(ctx))
		return work(ctx)
	}
	pair{"old": old, "new": newOnly(l)}.exclude(t)
}

func TestEtcdMutex(t *testing.T) {
	server := servers.NewEtcd(t, servers.EtcdOptions{})
	client, err := dial.Etcd(t.Context(), []string{server.Addr()})
	must(t, err)
	t.Cleanup(func() { client.Close() })
	l, err := etcd.New(client)
	must(t, err)
	t.Cleanup(func() { _ = l.Close(context.Background()) })
	migrate(t, l, func(l locker.Locker) program {
		session, err := concurrency.NewSession(client, concurrency.WithTTL(10)) // each program has one
		must(t, err)
		t.Cleanup(func() { session.Close() })
		return func(ctx context.Context, work func(context.Context) error) error {
			mutex := concurrency.NewMutex(session, "/locks/"+name)
			if err := mutex.Lock(ctx); err != nil {
				return err
			}
			defer mutex.Unlock(context.WithoutCancel(ctx))
			return locker.Do(ctx, l, name, func(ctx context.Context, lock *locker.Lock) error {
				return work(ctx)
			})
		}
	})
}

func TestZKLock(t *testing.T) {
	server := servers.NewZooKeeper(t, servers.ZooKeeperOptions{})
	conn, err := dial.ZooKeeper(t.Context(), []string{server.Addr()}, 10*time.Second)
	must(t, err)
	t.Cleanup(conn.Close)
	l, err := zookeeper.Connect(t.Context(), []string{server.Addr()})
	must(t, err)
	t.Cleanup(func() { _ = l.Close(context.Background()) })
	migrate(t, l, func(l locker.Locker) program {
		return func(ctx context.Context, work func(context.Context) error) error {
			lock := zk.NewLock(conn, "/locks/"+url.PathEscape(name), zk.WorldACL(zk.PermAll))
			if err := lock.Lock(); err != nil {
				return err
			}
			defer lock.Unlock()
			return locker.Do(ctx, l, name, func(ctx context.Context, lock *locker.Lock) error {
				return work(ctx)
			})
		}
	})

	// The old lock cannot read the nodes of the new one: on one path it fails while that is there.
	same := zk.NewLock(conn, "/locker/"+url.PathEscape(name), zk.WorldACL(zk.PermAll))
	err = newOnly(l)(t.Context(), func(context.Context) error {
		if err := same.Lock(); err == nil {
			return errors.Join(errors.New("both hold"), same.Unlock())
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

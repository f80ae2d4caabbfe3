package redis

import (
	"errors"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/servers"
)

// The master dies and a Sentinel makes its replica the master: holders keep their
// locks if the replica knows of them, waiters go on, tokens rise.
func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	g := servers.NewRedisSentinel(t, servers.RedisOptions{})
	ctx := within(t, 5*time.Minute)
	open := func() locker.Locker {
		return open(t, closing(t, goredis.NewFailoverClient(failoverOptions(g.SentinelAddrs(), nil))), locker.WithTTL(2*time.Minute))
	}
	a, b, c := open(), open(), open()
	master := connect(t, g.Master.Addr())
	name := freshName(t)
	lock := acquire(t, a, name)
	first := wants(ctx, b, name)
	queued(t, master, name, 1)
	second := wants(ctx, c, name)
	queued(t, master, name, 2)
	// A write, so that WAIT has something to wait for on this connection.
	master.Set(ctx, "control", "x", 0)
	if n, err := master.Wait(ctx, 1, 5*time.Second).Result(); n != 1 {
		t.Fatal(n, err)
	}
	locktest.Must(t, g.Master.Kill(), g.FailOverAfter(ctx, time.Second))
	eventually.Is(t, "a new master", func() bool {
		m, err := g.CurrentMaster(ctx)
		return err == nil && m == g.Replicas[0]
	})
	eventually.Is(t, "renewed by the replica, which knew of it", renewal(t, lock))
	if err := locktest.Freed(ctx, lock); err != nil && !errors.Is(err, locker.ErrLost) {
		t.Fatal(err)
	}
	// Who listens at the new master first comes first.
	select {
	case <-first.Done:
	case <-second.Done:
		first, second = second, first
	case <-time.After(20 * time.Second):
		t.Fatal("no waiter went on")
	}
	next := first.Granted(t, slack)
	if next.Token() <= lock.Token() {
		t.Errorf("token %d after %d", next.Token(), lock.Token())
	}
	release(t, next)
	last := second.Granted(t, 10*time.Second)
	if last.Token() <= next.Token() {
		t.Errorf("token %d after %d", last.Token(), next.Token())
	}
	release(t, last)
}

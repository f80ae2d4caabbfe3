package servers

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/internal/locktest"
)

func mustDo(t testing.TB, r *Redis, args ...string) any {
	t.Helper()
	v, err := r.Do(locktest.Within(t, time.Minute), args...)
	must(t, err)
	return v
}

func TestRedisLife(t *testing.T) {
	r := NewRedis(t, RedisOptions{Args: []string{"--appendonly", "yes", "--appendfsync", "always"}})
	mustDo(t, r, "SET", "k", "v")
	lives(t, r.Server, func() (bool, error) {
		n, v := mustDo(t, r, "DBSIZE"), mustDo(t, r, "GET", "k")
		if n != int64(0) && v != "v" {
			t.Errorf("%v keys, and %v", n, v)
		}
		return n != int64(0), nil
	})
}

func TestRedisPause(t *testing.T) {
	r := NewRedis(t, RedisOptions{})
	must(t, r.Pause())
	if _, err := r.Do(locktest.Within(t, 100*time.Millisecond), "PING"); err == nil {
		t.Error("a paused server answers")
	}
	must(t, r.Resume())
	mustDo(t, r, "PING")

	// Stop must not wait for a server that is paused.
	must(t, r.Pause())
	inTime := locktest.Limit(t, stopTimeout/2)
	must(t, r.Stop())
	inTime("Stop of a paused server")
	if !strings.Contains(r.Log(), "User requested shutdown") {
		t.Errorf("Stop was not clean; the log ends:\n%s", r.Log())
	}
}

func TestRedisRequests(t *testing.T) {
	r := NewRedis(t, RedisOptions{})
	ctx := locktest.Within(t, 2*time.Minute)
	c, err := dialRESP(ctx, r.Addr(), nil)
	must(t, err)
	defer c.Close()
	send := func() {
		for _, args := range [][]string{
			{"SET", "a", "[0 lua] "},
			{"EVAL", "redis.call('SET', 'b', 1); redis.call('SET', 'c', 1); return 1", "0"},
			{"GET", "a"},
		} {
			_, err := c.do(args...)
			must(t, err)
		}
		mustDo(t, r, "GET", "not counted")
		mustDo(t, r, "CONFIG", "GET", "port") // MONITOR does not show it
	}
	counts(t, r.Server, 3, send)
	if len(r.probe.own) > 0 {
		t.Errorf("noted after all was counted: %v", r.probe.own)
	}
	r.StopCounting()
	send()
	if text := mustDo(t, r, "CLIENT", "LIST").(string); strings.Contains(text, "cmd=monitor") || len(r.probe.own) > 0 {
		t.Errorf("after StopCounting: noted %v, clients:\n%s", r.probe.own, text)
	}
	counts(t, r.Server, 3, send)

	must(t, r.Restart(ctx))
	if n, err := r.Requests(ctx); err != nil || n != 0 {
		t.Errorf("after a restart: %d, %v", n, err)
	}
}

func TestRedisSecrets(t *testing.T) {
	r := NewRedis(t, RedisOptions{Password: "secret", TLS: true, ClientCert: true})
	mustDo(t, r, "PING")
	ctx := locktest.Within(t, time.Minute)

	without := r.TLSConfig()
	without.Certificates = nil
	if c, err := dialRESP(ctx, r.Addr(), without); err == nil {
		_, err = c.do("PING")
		c.Close()
		if err == nil || errors.As(err, new(RedisError)) {
			t.Error("a client without a certificate was let in")
		}
	}
	c, err := dialRESP(ctx, r.Addr(), r.TLSConfig())
	must(t, err)
	defer c.Close()
	if _, err := c.do("GET", "k"); err == nil || !strings.HasPrefix(err.Error(), "NOAUTH") {
		t.Errorf("without the password: %v", err)
	}
	must(t, r.Restart(ctx))
}

func TestRedisSet(t *testing.T) {
	all := SharedRedisSet(t)
	seen := map[string]bool{}
	for i, r := range all {
		mustDo(t, r, "SET", "which", r.Addr())
		seen[r.Addr()] = true
		if i > 0 {
			if v := mustDo(t, all[0], "GET", "which"); v != all[0].Addr() {
				t.Errorf("server 0 knows what server %d was told", i)
			}
		}
	}
	ctx := locktest.Within(t, time.Minute)
	_, err := all[0].Requests(ctx)
	must(t, err)
	c, err := dialRESP(ctx, all[0].Addr(), nil)
	must(t, err)
	defer c.Close()
	_, err = c.do("PING")
	must(t, err)
	one, err := all[0].Requests(ctx)
	must(t, err)
	two, err := SumRequests(ctx, []*Redis{all[0], all[0]})
	if err != nil || one == 0 || two != 2*one {
		t.Errorf("the sum of %d twice is %d, %v", one, two, err)
	}
	if len(seen) != 5 {
		t.Errorf("addresses: %v", seen)
	}
}

func TestReplicatedRedis(t *testing.T) {
	g := NewReplicatedRedis(t, 2, RedisOptions{Password: "secret"})
	mustDo(t, g.Master, "SET", "k", "v")
	if n := mustDo(t, g.Master, "WAIT", "2", "50000"); n != int64(2) {
		t.Errorf("%v replicas acknowledged", n)
	}
	for _, r := range g.Replicas {
		if v := mustDo(t, r, "GET", "k"); v != "v" {
			t.Errorf("replica: %v", v)
		}
		if _, err := r.Do(locktest.Within(t, time.Minute), "SET", "k", "w"); err == nil || !strings.Contains(err.Error(), "READONLY") {
			t.Errorf("write to a replica: %v", err)
		}
	}
}

func TestReplicatedRedisTLS(t *testing.T) {
	g := NewReplicatedRedis(t, 1, RedisOptions{TLS: true})
	mustDo(t, g.Replicas[0], "PING")
}

func TestRedisSentinel(t *testing.T) {
	t.Parallel()
	g := NewRedisSentinel(t, RedisOptions{})
	ctx := locktest.Within(t, 3*time.Minute)
	next := g.Replicas[0]
	must(t, g.Master.Kill(), g.FailOverAfter(ctx, time.Second))
	must(t, Poll(ctx, func(ctx context.Context) error {
		m, err := g.CurrentMaster(ctx)
		if err == nil && m != next {
			err = errors.New("no failover yet")
		}
		return err
	}))
	must(t, Poll(ctx, func(ctx context.Context) error {
		_, err := next.Do(ctx, "SET", "k", "v")
		return err
	}))
}

func TestRedisCluster(t *testing.T) {
	t.Parallel()
	c := NewRedisCluster(t, 3, RedisOptions{})
	ctx := locktest.Within(t, 2*time.Minute)
	used := map[*Redis]bool{}
	for _, key := range []string{"a", "b", "c", "d", "{a}b"} {
		r, err := c.NodeOf(ctx, key)
		must(t, err)
		must(t, Poll(ctx, func(ctx context.Context) error { // a node that stood still is missed for a while
			_, err := r.Do(ctx, "SET", key, "v")
			return err
		}))
		used[r] = true
	}
	if len(used) != 3 {
		t.Errorf("five keys lie on %d nodes", len(used))
	}
	// A node comes back with its slots.
	must(t, c.Nodes[1].Kill(), c.Nodes[1].Restart(ctx), c.WaitReady(ctx))
}

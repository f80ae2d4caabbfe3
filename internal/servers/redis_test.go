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
	v, err := r.Do(locktest.Within(t, 10*time.Second), args...)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestRedisLife(t *testing.T) {
	r := NewRedis(t, RedisOptions{Args: []string{"--appendonly", "yes", "--appendfsync", "always"}})
	addr, pid := r.Addr(), r.PID()
	mustDo(t, r, "SET", "k", "v")

	if err := r.Kill(); err != nil {
		t.Fatal(err)
	}
	if r.PID() != 0 {
		t.Error("a killed server has a pid")
	}
	if _, err := r.Do(locktest.Within(t, time.Second), "PING"); err == nil {
		t.Error("a killed server answers")
	}
	if err := r.Pause(); !errors.Is(err, ErrNotRunning) {
		t.Errorf("Pause of a killed server: %v", err)
	}
	if err := r.Restart(locktest.Within(t, 2*time.Minute)); err != nil {
		t.Fatal(err)
	}
	if r.Addr() != addr || r.PID() == pid || r.PID() == 0 {
		t.Errorf("after Restart: %s pid %d, before: %s pid %d", r.Addr(), r.PID(), addr, pid)
	}
	if v := mustDo(t, r, "GET", "k"); v != "v" {
		t.Errorf("after Restart: %v", v)
	}
	if err := r.RestartEmpty(locktest.Within(t, 2*time.Minute)); err != nil {
		t.Fatal(err)
	}
	if v := mustDo(t, r, "DBSIZE"); v != int64(0) {
		t.Errorf("after RestartEmpty: %v keys", v)
	}
}

func TestRedisPause(t *testing.T) {
	r := NewRedis(t, RedisOptions{})
	if err := r.Pause(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Do(locktest.Within(t, 100*time.Millisecond), "PING"); err == nil {
		t.Error("a paused server answers")
	}
	if err := r.Resume(); err != nil {
		t.Fatal(err)
	}
	mustDo(t, r, "PING")

	// Stop must not wait for a server that is paused.
	if err := r.Pause(); err != nil {
		t.Fatal(err)
	}
	inTime := locktest.Limit(t, stopTimeout/2)
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	inTime("Stop of a paused server")
	if !strings.Contains(r.Log(), "User requested shutdown") {
		t.Errorf("Stop was not clean; the log ends:\n%s", r.Log())
	}
}

func TestRedisRequests(t *testing.T) {
	r := NewRedis(t, RedisOptions{})
	ctx := locktest.Within(t, 2*time.Minute)
	before, err := r.Requests(ctx)
	if err != nil {
		t.Fatal(err)
	}
	c, err := dialRESP(ctx, r.Addr(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, args := range [][]string{
		{"SET", "a", "1"},
		{"EVAL", "redis.call('SET', 'b', 1); redis.call('SET', 'c', 1); return 1", "0"},
		{"GET", "a"},
	} {
		if _, err := c.do(args...); err != nil {
			t.Fatal(err)
		}
	}
	mustDo(t, r, "GET", "not counted")
	for range 2 { // counting does not count
		after, err := r.Requests(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if after-before != 3 {
			t.Errorf("%d requests were counted, 3 were sent", after-before)
		}
	}
	commands, err := r.Commands(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if commands["set"] != 3 || commands["eval"] != 1 || commands["get"] != 1 || commands["info"] != 0 || commands["ping"] != 0 {
		t.Errorf("commands: %v", commands)
	}

	if err := r.Restart(ctx); err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.do("GET", "k"); err == nil || !strings.HasPrefix(err.Error(), "NOAUTH") {
		t.Errorf("without the password: %v", err)
	}
	if err := r.Restart(ctx); err != nil {
		t.Fatal(err)
	}
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
	ctx := locktest.Within(t, 10*time.Second)
	one, err := all[0].Requests(ctx)
	if err != nil {
		t.Fatal(err)
	}
	two, err := SumRequests(ctx, []*Redis{all[0], all[0]})
	if err != nil || two != 2*one {
		t.Errorf("the sum of %d twice is %d, %v", one, two, err)
	}
	if len(seen) != 5 {
		t.Errorf("addresses: %v", seen)
	}
}

func TestReplicatedRedis(t *testing.T) {
	g := NewReplicatedRedis(t, 2, RedisOptions{Password: "secret"})
	mustDo(t, g.Master, "SET", "k", "v")
	if n := mustDo(t, g.Master, "WAIT", "2", "5000"); n != int64(2) {
		t.Errorf("%v replicas acknowledged", n)
	}
	for _, r := range g.Replicas {
		if v := mustDo(t, r, "GET", "k"); v != "v" {
			t.Errorf("replica: %v", v)
		}
		if _, err := r.Do(locktest.Within(t, 10*time.Second), "SET", "k", "w"); err == nil || !strings.Contains(err.Error(), "READONLY") {
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
	m, err := g.CurrentMaster(ctx) // not the first if that was silent for a second
	if err != nil {
		t.Fatal(err)
	}
	next := g.Master
	if m == next {
		next = g.Replicas[0]
	}
	if err := m.Kill(); err != nil {
		t.Fatal(err)
	}
	err = Poll(ctx, func(ctx context.Context) error {
		m, err := g.CurrentMaster(ctx)
		if err == nil && m != next {
			err = errors.New("no failover yet")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	err = Poll(ctx, func(ctx context.Context) error {
		_, err := next.Do(ctx, "SET", "k", "v")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestRedisCluster(t *testing.T) {
	t.Parallel()
	c := NewRedisCluster(t, 3, RedisOptions{})
	ctx := locktest.Within(t, 2*time.Minute)
	used := map[*Redis]bool{}
	for _, key := range []string{"a", "b", "c", "d", "{a}b"} {
		r, err := c.NodeOf(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		err = Poll(ctx, func(ctx context.Context) error { // a node that stood still is missed for a while
			_, err := r.Do(ctx, "SET", key, "v")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		used[r] = true
	}
	if len(used) != 3 {
		t.Errorf("five keys lie on %d nodes", len(used))
	}
	// A node comes back with its slots.
	if err := c.Nodes[1].Kill(); err != nil {
		t.Fatal(err)
	}
	if err := c.Nodes[1].Restart(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
}

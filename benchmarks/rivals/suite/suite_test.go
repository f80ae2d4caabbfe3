package suite_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/rivals"
	"github.com/seed80cd6120/locker/benchmarks/rivals/suite"
	"github.com/seed80cd6120/locker/conformance"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

// Every rival can be opened behind the suite's interface, excludes, and gives back.
func TestRivals(t *testing.T) {
	redis := servers.NewRedisSet(t, 5, servers.RedisOptions{})
	addrs := map[contender.Service][]string{
		contender.ZooKeeper: {servers.SharedZooKeeper(t).Addr()},
		contender.Etcd:      {servers.SharedEtcd(t).Addr()},
		contender.Postgres:  {servers.SharedPostgres(t).Addr()},
	}
	for _, r := range redis {
		addrs[contender.Redis] = append(addrs[contender.Redis], r.Addr())
	}
	for _, c := range rivals.All() {
		if c.Setup.Variant != contender.Usual || c.Setup.Nodes == 3 {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel() // most of it is waiting for a TTL
			keepsTheRules(t, suite.Opener(c, addrs[c.Setup.Service][:c.Setup.Nodes], true))
		})
	}
}

func keepsTheRules(t *testing.T, open func(context.Context, ...locker.Option) (conformance.Client, error)) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	const ttl = 30 * time.Second
	name := t.Name()
	var clients []conformance.Client
	for range 2 {
		c, err := open(ctx, locker.WithTTL(ttl))
		locktest.Must(t, err)
		defer c.Close(ctx)
		clients = append(clients, c)
	}
	a, b := clients[0], clients[1]

	held := acquire(ctx, t, a, name)
	// Longer than the TTL: it is renewed by the library or by the adapter. And the ctx of
	// the acquisition, which is over by now, is not that of the holding.
	within, done := context.WithTimeout(ctx, ttl+time.Second)
	defer done()
	if h, err := b.Acquire(within, name); err == nil {
		t.Errorf("two hold: %v", h.Name())
	} else if within.Err() == nil {
		t.Errorf("a waiter gave up: %v", err)
	}
	_, err := b.TryAcquire(ctx, name)
	if !errors.Is(err, locker.ErrNotAcquired) && !errors.Is(err, locker.ErrUnsupported) {
		t.Errorf("try: %v", err)
	}
	if held.Context().Err() != nil {
		t.Error("lost although nothing failed")
	}
	if err := held.Release(ctx); err != nil {
		t.Errorf("release: %v", err)
	}
	if context.Cause(held.Context()) == nil {
		t.Error("the context goes on after the release")
	}
	if err := acquire(ctx, t, b, name).Release(ctx); err != nil {
		t.Error(err)
	}
}

// acquire asks again, as rueidislock may sleep for ever over a lock that is free when its
// server answered later than after 20 ms.
func acquire(ctx context.Context, t *testing.T, c conformance.Client, name string) conformance.Holding {
	t.Helper()
	for {
		within, done := context.WithTimeout(ctx, 5*time.Second)
		h, err := c.Acquire(within, name)
		done()
		if err == nil {
			return h
		}
		if within.Err() == nil || ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

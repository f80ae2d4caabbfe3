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
	"github.com/seed80cd6120/locker/benchmarks/site"
	"github.com/seed80cd6120/locker/conformance"
	"github.com/seed80cd6120/locker/internal/servers"
)

// Every rival can be opened behind the suite's interface, excludes, and gives back.
func TestRivals(t *testing.T) {
	redis := servers.NewRedisSet(t, 5, servers.RedisOptions{})
	addrs := map[contender.Service][]string{
		contender.ZooKeeper: {servers.SharedZooKeeper(t).Addr()},
		contender.Etcd:      {servers.SharedEtcd(t).Addr()},
	}
	for _, r := range redis {
		addrs[contender.Redis] = append(addrs[contender.Redis], r.Addr())
	}
	for _, c := range rivals.All() {
		if c.Setup.Variant != contender.Usual || c.Setup.Nodes == 3 {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			open := suite.Opener(c, addrs[c.Setup.Service], true)
			a, err := open(ctx, locker.WithTTL(2*time.Second))
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close(ctx)
			b, err := open(ctx, locker.WithTTL(2*time.Second))
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close(ctx)

			// The ctx of an acquisition is not that of the holding.
			taking, taken := context.WithTimeout(ctx, 10*time.Second)
			held, err := a.Acquire(taking, "suite")
			if err != nil {
				t.Fatal(err)
			}
			taken()
			// Longer than the TTL: it is renewed by the library or by the adapter.
			within, done := context.WithTimeout(ctx, 3*time.Second)
			if h, err := b.Acquire(within, "suite"); err == nil {
				t.Errorf("two hold: %v", h.Name())
			} else if within.Err() == nil {
				t.Errorf("a waiter gave up: %v", err)
			}
			done()
			_, err = b.TryAcquire(ctx, "suite")
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
			next, err := b.Acquire(ctx, "suite")
			if err != nil {
				t.Fatal(err)
			}
			if err := next.Release(ctx); err != nil {
				t.Error(err)
			}
		})
	}
}

// go test -run '^$' -bench Rivals -count 10 ./rivals/suite | benchstat -
//
// rueidislock is left out: now and then one of its waiters sleeps for ever.
func BenchmarkRivals(b *testing.B) {
	for _, c := range rivals.All() {
		if c.Setup.Variant != contender.Usual || c.Family == "rueidislock" {
			continue
		}
		b.Run(c.Name, func(b *testing.B) {
			s, err := site.Start(b.Context(), c.Setup, nil)
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = s.Close() })
			conformance.Benchmark(b, func(testing.TB) *conformance.Harness {
				return &conformance.Harness{OpenClient: suite.Opener(c, s.Addrs, false)}
			})
		})
	}
}

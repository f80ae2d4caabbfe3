package etcd

import (
	"context"
	"sync"
	"testing"

	"github.com/seed80cd6120/locker/conformance"
	"github.com/seed80cd6120/locker/internal/servers"
	"go.etcd.io/etcd/client/v3/concurrency"
)

func Benchmark(b *testing.B) {
	cluster := servers.NewEtcdCluster(b, 1, servers.EtcdOptions{Sync: true})
	conformance.Benchmark(b, func(t testing.TB) *conformance.Harness {
		return harness(t, cluster, nil, func() (misconfigured, error) { return nil, nil })
	})
}

// BenchmarkAgainst measures, on one server that waits for its disk, what cannot be
// done without, the client's own mutex, and this package.
func BenchmarkAgainst(b *testing.B) {
	e := servers.NewEtcd(b, servers.EtcdOptions{Sync: true})
	ctx := context.Background()
	mutex := func(b *testing.B) func() {
		s, err := concurrency.NewSession(dial(b, e.Addr()))
		must(b, err)
		b.Cleanup(func() { s.Close() })
		m := concurrency.NewMutex(s, "mutex")
		return func() {
			if err := m.Lock(ctx); err != nil {
				b.Error(err)
			}
			if err := m.Unlock(ctx); err != nil {
				b.Error(err)
			}
		}
	}
	ours := func(b *testing.B) func() {
		l := newLocker(b, dial(b, e.Addr()))
		return func() { cycle(b, l, "locker", nil) }
	}
	b.Run("alone/floor", func(b *testing.B) {
		c := dial(b, e.Addr())
		for b.Loop() {
			if _, err := c.Put(ctx, "floor", ""); err != nil {
				b.Fatal(err)
			}
			if _, err := c.Delete(ctx, "floor"); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("alone/mutex", func(b *testing.B) { share(b, e, mutex(b)) })
	b.Run("alone/locker", func(b *testing.B) { share(b, e, ours(b)) })
	sixteen := func(one func(b *testing.B) func()) func(b *testing.B) {
		return func(b *testing.B) {
			var all []func()
			for range 16 {
				all = append(all, one(b))
			}
			share(b, e, all...)
		}
	}
	b.Run("clients-16/mutex", sixteen(mutex))
	b.Run("clients-16/locker", sixteen(ours))
	b.Run("goroutines-16/locker", func(b *testing.B) {
		one := ours(b)
		share(b, e, one, one, one, one, one, one, one, one, one, one, one, one, one, one, one, one)
	})
}

// share has the rounds of a benchmark done by several at once.
func share(b *testing.B, e *servers.Etcd, all ...func()) {
	for _, one := range all {
		one() // connect, and begin the session
	}
	rounds := make(chan struct{})
	var wg sync.WaitGroup
	for _, one := range all {
		wg.Go(func() {
			for range rounds {
				one()
			}
		})
	}
	since := requests(b, e)
	b.ResetTimer()
	for range b.N {
		rounds <- struct{}{}
	}
	close(rounds)
	wg.Wait()
	b.StopTimer()
	n, _ := since()
	b.ReportMetric(float64(n)/float64(b.N), "requests/op")
}

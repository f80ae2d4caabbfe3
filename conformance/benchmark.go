package conformance

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"
)

// Benchmark measures a backend: alone, one Locker that takes and releases one name
// again and again, and contended, several Lockers on one name. One operation is one
// acquisition with its release. It reports, besides the usual, the time from a
// release to the next holder's return from Acquire (handover-ns/op) and, if the
// harness counts them, the requests of one operation (requests/op).
//
//	func Benchmark(b *testing.B) { conformance.Benchmark(b, newHarness) }
//
//	go test -run '^$' -bench . -count 10 | benchstat -
func Benchmark(b *testing.B, newHarness func(t testing.TB) *Harness) {
	b.Helper()
	for _, clients := range []int{1, 2, 16} {
		what := fmt.Sprintf("contended-%d", clients)
		if clients == 1 {
			what = "alone"
		}
		b.Run(what, func(b *testing.B) { bench(b, newHarness(b), clients) })
	}
}

func bench(b *testing.B, h *Harness, clients int) {
	b.Helper()
	ctx := b.Context()
	name := fmt.Sprintf("conformance/benchmark-%x", time.Now().UnixNano())
	lockers := make([]Client, clients)
	for i := range lockers {
		l, err := h.open(ctx, lasting(nil)...)
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = l.Close(context.WithoutCancel(ctx)) }()
		lockers[i] = l
		use(b, l, name)
	}

	count := func() int64 {
		if h.Requests == nil {
			return 0
		}
		n, err := h.Requests(ctx)
		if err != nil {
			b.Fatal(err)
		}
		return n
	}
	before := count()
	var released time.Time // written by the holder of the lock, read by the next
	var handover time.Duration
	turns := make(chan struct{}, b.N)
	for range b.N {
		turns <- struct{}{}
	}
	close(turns)
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for _, l := range lockers {
		wg.Go(func() {
			for range turns {
				lock, err := l.Acquire(ctx, name)
				if err != nil {
					b.Errorf("acquire: %v", err)
					return
				}
				if !released.IsZero() {
					handover += time.Since(released)
				}
				released = time.Now()
				if err := lock.Release(ctx); err != nil {
					b.Errorf("release: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	if clients > 1 {
		b.ReportMetric(float64(handover.Nanoseconds())/float64(b.N), "handover-ns/op")
	}
	if h.Requests != nil {
		b.ReportMetric(float64(count()-before)/float64(b.N), "requests/op")
	}
}

// use has everything that is made at the first use be there.
func use(b *testing.B, l Client, name string) {
	b.Helper()
	for range 3 {
		lock, err := l.Acquire(b.Context(), name)
		if err != nil {
			b.Fatal(err)
		}
		if err := lock.Release(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

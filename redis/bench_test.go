package redis

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/servers"
)

// The least that a lock with a random value can do: SET NX PX and a release that
// compares, both as scripts. It has no token, no queue and no renewal.
var (
	bareTake = goredis.NewScript(`if redis.call("set", KEYS[1], ARGV[1], "NX", "PX", ARGV[2]) then return 1 end return 0`)
	bareFree = goredis.NewScript(`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`)
)

// BenchmarkAlone compares taking and releasing a free name with that floor, in turns
// so that both have the same of a noisy machine.
func BenchmarkAlone(b *testing.B) {
	r := servers.SharedRedis(b)
	ctx := context.Background()
	client := connect(b, r.Addr())
	l := open(b, client)
	name := freshName(b)
	bare := func() {
		if v, err := bareTake.Run(ctx, client, []string{name}, "0123456789abcdef0123456789abcdef", 15000).Int(); err != nil || v != 1 {
			b.Fatal(v, err)
		}
		if v, err := bareFree.Run(ctx, client, []string{name}, "0123456789abcdef0123456789abcdef").Int(); err != nil || v != 1 {
			b.Fatal(v, err)
		}
	}
	ours := func() {
		lock, err := l.Acquire(ctx, name)
		if err != nil {
			b.Fatal(err)
		}
		if err := lock.Release(ctx); err != nil {
			b.Fatal(err)
		}
	}
	const slice = 200
	var mine, floor []time.Duration
	for b.Loop() {
		for _, do := range []func(){ours, bare} {
			began := time.Now()
			for range slice {
				do()
			}
			took := time.Since(began) / slice
			if len(mine) == len(floor) {
				mine = append(mine, took)
			} else {
				floor = append(floor, took)
			}
		}
	}
	slices.Sort(mine)
	slices.Sort(floor)
	m, f := mine[len(mine)/2], floor[len(floor)/2]
	b.ReportMetric(float64(time.Second)/float64(m), "acq/s")
	b.ReportMetric(float64(f)/float64(m), "of-floor")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkContended has 16 take one name in turn, as clients of their own and as
// goroutines of one Locker.
func BenchmarkContended(b *testing.B) {
	for _, how := range []string{"clients", "goroutines"} {
		b.Run(how, func(b *testing.B) {
			r := servers.SharedRedis(b)
			const n = 16
			lockers := make([]locker.Locker, n)
			for i := range lockers {
				if how == "goroutines" && i > 0 {
					lockers[i] = lockers[0]
					continue
				}
				lockers[i] = open(b, connect(b, r.Addr()))
			}
			name := freshName(b)
			counts := make([]int, n)
			waits := make([][]time.Duration, n)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			var wg sync.WaitGroup
			left := make(chan struct{}, b.N)
			for range b.N {
				left <- struct{}{}
			}
			b.ResetTimer()
			for i, l := range lockers {
				wg.Go(func() {
					for {
						select {
						case <-left:
						default:
							return
						}
						began := time.Now()
						lock, err := l.Acquire(ctx, name)
						if err != nil {
							b.Error(err)
							return
						}
						waits[i] = append(waits[i], time.Since(began))
						counts[i]++
						if err := lock.Release(ctx); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			all := slices.Concat(waits...)
			slices.Sort(all)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "acq/s")
			b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, "p99-ms")
			if least := slices.Min(counts); least > 0 {
				b.ReportMetric(float64(slices.Max(counts))/float64(least), "largest/smallest")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkRenew renews many locks that are held.
func BenchmarkRenew(b *testing.B) {
	r := servers.SharedRedis(b)
	l := open(b, connect(b, r.Addr()))
	for i := range 10000 {
		if _, err := l.Acquire(context.Background(), fmt.Sprint(b.Name(), i)); err != nil {
			b.Fatal(err)
		}
	}
}

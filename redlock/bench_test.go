package redlock

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	rsredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/conformance"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/servers"
)

func Benchmark(b *testing.B) {
	set := servers.NewRedisSet(b, 5, servers.RedisOptions{})
	conformance.Benchmark(b, func(t testing.TB) *conformance.Harness { return harness(t, addrs(set), set, nil) })
}

// taker takes and releases a lock once.
type taker func(ctx context.Context, name string) error

func ours(b testing.TB, nodes []string, opts ...locker.Option) taker {
	l := open(b, nodes, opts...)
	return func(ctx context.Context, name string) error {
		lock, err := l.Acquire(ctx, name)
		if err != nil {
			return err
		}
		return lock.Release(ctx)
	}
}

// theirs is redsync as it comes, trying until it gets the lock.
func theirs(b testing.TB, nodes []string) taker {
	var pools []rsredis.Pool
	for _, c := range connect(b, nodes...) {
		pools = append(pools, goredis.NewPool(c))
	}
	rs := redsync.New(pools...)
	return func(ctx context.Context, name string) error {
		m := rs.NewMutex("redsync/" + name)
		for m.LockContext(ctx) != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
		_, err := m.UnlockContext(ctx)
		return err
	}
}

// BenchmarkAlone compares taking and releasing a free name, in turns, so that all
// have the same of a noisy machine. The ratios are rates, divided by redsync's.
func BenchmarkAlone(b *testing.B) {
	nodes := five(b)
	takers := []taker{theirs(b, nodes), ours(b, nodes), ours(b, nodes, WithoutFencing())}
	took := make([][]time.Duration, len(takers))
	const slice = 100
	for b.Loop() {
		for i, take := range takers {
			begin := time.Now()
			for range slice {
				must(b, take(context.Background(), "bench/alone"))
			}
			took[i] = append(took[i], time.Since(begin)/slice)
		}
	}
	rate := func(i int) float64 { return 1 / median(took[i]).Seconds() }
	b.ReportMetric(rate(0), "redsync/s")
	b.ReportMetric(rate(1), "fenced/s")
	b.ReportMetric(rate(1)/rate(0), "fenced-ratio")
	b.ReportMetric(rate(2), "unfenced/s")
	b.ReportMetric(rate(2)/rate(0), "unfenced-ratio")
}

func median(list []time.Duration) time.Duration {
	slices.Sort(list)
	return list[len(list)/2]
}

// BenchmarkContended has 16 clients on one name, ours and redsync's in turns.
func BenchmarkContended(b *testing.B) {
	nodes := five(b)
	const clients = 16
	teams := make([][clients]taker, 2)
	for i := range clients {
		teams[0][i] = theirs(b, nodes)
		teams[1][i] = ours(b, nodes)
	}
	var rates [2][]float64
	var waits [2][]time.Duration
	var shares [2][clients]int
	for b.Loop() {
		for k := range teams {
			const length = 2 * time.Second
			var stop atomic.Bool
			var mu sync.Mutex
			var wg sync.WaitGroup
			total := 0
			for i, take := range teams[k] {
				wg.Go(func() {
					for !stop.Load() {
						begin := time.Now()
						if err := take(context.Background(), "bench/contended"); err != nil {
							b.Error(err)
							return
						}
						mu.Lock()
						waits[k] = append(waits[k], time.Since(begin))
						shares[k][i]++
						total++
						mu.Unlock()
					}
				})
			}
			begin := time.Now()
			time.Sleep(length)
			stop.Store(true)
			rates[k] = append(rates[k], float64(total)/time.Since(begin).Seconds())
			wg.Wait()
		}
	}
	for k, name := range []string{"redsync", "ours"} {
		slices.Sort(rates[k])
		slices.Sort(waits[k])
		b.ReportMetric(rates[k][len(rates[k])/2], name+"/s")
		b.ReportMetric(float64(waits[k][len(waits[k])*99/100].Microseconds())/1000, name+"-p99-ms")
		b.ReportMetric(float64(slices.Max(shares[k][:]))/float64(max(1, slices.Min(shares[k][:]))), name+"-shares")
	}
	b.ReportMetric(rates[1][len(rates[1])/2]/rates[0][len(rates[0])/2], "ratio")
}

// BenchmarkBlackHole compares five healthy nodes with four and one that accepts
// connections and never answers, in turns.
func BenchmarkBlackHole(b *testing.B) {
	nodes := five(b)
	list, fronts := proxies(b, nodes[2:3])
	holed := slices.Clone(nodes)
	holed[2] = fronts[0]
	list[0].BlackHole()
	takers := []taker{ours(b, nodes), ours(b, holed)}
	var took [2][]time.Duration
	for b.Loop() {
		for i, take := range takers {
			for range 100 {
				begin := time.Now()
				must(b, take(context.Background(), fmt.Sprint("bench/hole/", i)))
				took[i] = append(took[i], time.Since(begin))
			}
		}
	}
	for i, name := range []string{"healthy", "holed"} {
		slices.Sort(took[i])
		b.ReportMetric(float64(median(took[i]).Microseconds()), name+"-p50-us")
		b.ReportMetric(float64(took[i][len(took[i])*99/100].Microseconds()), name+"-p99-us")
	}
}

// TestIdleWaitersCostLittle: 100 clients that wait cost all five nodes together less
// than a request a second each.
func TestIdleWaitersCostLittle(t *testing.T) {
	set := servers.NewRedisSet(t, 5, servers.RedisOptions{})
	nodes := addrs(set)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	holder := newDriver(t, nodes)
	held := driverClaim(t.Name(), 10*time.Minute, false)
	_, err := holder.Acquire(ctx, held)
	must(t, err)
	const waiters = 100
	var wg sync.WaitGroup
	for range waiters {
		b, c := newDriver(t, nodes), driverClaim(t.Name(), time.Minute, true)
		wg.Go(func() {
			if _, err := b.Acquire(ctx, c); err == nil {
				t.Error("somebody did not wait")
			}
			_ = b.Abandon(context.Background(), c)
		})
	}
	waits(t, connect(t, nodes...), t.Name(), waiters-1) // one may have a node that the holder did not get
	perSecond := locktest.Requests(1, func() float64 {
		before, begin := requests(t, set), time.Now()
		time.Sleep(5 * time.Second)
		return float64(requests(t, set)-before) / time.Since(begin).Seconds() / waiters
	})
	t.Logf("%.2f requests a second for each waiter", perSecond)
	if perSecond >= 1 {
		t.Error("want less than 1")
	}
	cancel()
	wg.Wait()
	must(t, holder.Release(context.Background(), held))
}

package zookeeper

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/seed80cd6120/locker/conformance"
	"github.com/seed80cd6120/locker/internal/servers"
)

func Benchmark(b *testing.B) {
	z := servers.NewZooKeeper(b, servers.ZooKeeperOptions{Sync: true, FullJIT: true})
	conformance.Benchmark(b, func(tb testing.TB) *conformance.Harness {
		return harness(tb, []string{z.Addr()}, z.Requests, nil, nil)
	})
}

// A contender takes and releases a lock.
type contender struct {
	name string
	use  func() error
	end  func()
}

func ours(b *testing.B, addr string) contender {
	b.Helper()
	l, err := Connect(context.Background(), []string{addr})
	must(b, err)
	return contender{"locker", func() error {
		lock, err := l.Acquire(context.Background(), "bench")
		if err != nil {
			return err
		}
		return lock.Release(context.Background())
	}, func() { _ = l.Close(context.Background()) }}
}

// theirs is the lock that the library has.
func theirs(b *testing.B, addr string) contender {
	c := console(b, addr)
	return contender{"zk.Lock", func() error {
		l := zk.NewLock(c.Conn, "/theirs", zk.WorldACL(zk.PermAll))
		if err := l.Lock(); err != nil {
			return err
		}
		return l.Unlock()
	}, c.Close}
}

// floor is what every such lock has to do.
func floor(b *testing.B, addr string) contender {
	c := console(b, addr)
	if _, err := c.Create("/floor", nil, 0, zk.WorldACL(zk.PermAll)); err != nil && err != zk.ErrNodeExists {
		b.Fatal(err)
	}
	return contender{"create+delete", func() error {
		path, err := c.Create("/floor/n", nil, zk.FlagEphemeralSequential, zk.WorldACL(zk.PermAll))
		if err != nil {
			return err
		}
		return c.Delete(path, -1)
	}, c.Close}
}

// onServers runs the benchmark on a server that writes to the disk before it answers,
// as servers do, and on one that does not, where what the client does weighs more.
func onServers(b *testing.B, run func(b *testing.B, addr string)) {
	for _, sync := range []bool{true, false} {
		b.Run(fmt.Sprintf("forceSync=%v", sync), func(b *testing.B) {
			z := servers.NewZooKeeper(b, servers.ZooKeeperOptions{Sync: sync, FullJIT: true})
			run(b, z.Addr())
		})
	}
}

func times(b *testing.B, c contender) time.Duration {
	start := time.Now()
	if err := c.use(); err != nil {
		b.Fatalf("%s: %v", c.name, err)
	}
	return time.Since(start)
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

// total leaves out the slowest in a hundred, which hit a pause of the disk or of the
// server's memory: those are long, few, and not shared evenly.
func total(all []time.Duration) (s time.Duration) {
	slices.Sort(all)
	for _, d := range all[:len(all)-len(all)/100] {
		s += d
	}
	return s
}

// BenchmarkAlone has nobody else on the server: one operation is one lock by each
// contender, in turn. Printed are the rate as a multiple of zk.Lock's and the median as
// one of create+delete's.
func BenchmarkAlone(b *testing.B) {
	onServers(b, func(b *testing.B, addr string) {
		all := []contender{ours(b, addr), theirs(b, addr), floor(b, addr)}
		took := make([][]time.Duration, len(all))
		for range 2000 { // until the server has compiled what it does
			for _, c := range all {
				times(b, c)
			}
		}
		turn := 0
		for b.Loop() {
			for i := range all {
				i := (i + turn) % len(all)
				took[i] = append(took[i], times(b, all[i]))
			}
			turn++
		}
		b.ReportMetric(float64(total(took[1]))/float64(total(took[0])), "x-rate-of-zk.Lock")
		b.ReportMetric(float64(median(took[0]))/float64(median(took[2])), "x-p50-of-create+delete")
		for i, c := range all {
			b.ReportMetric(float64(median(took[i]).Microseconds()), "p50-us-"+c.name)
			c.end()
		}
	})
}

// BenchmarkContended has 16 at one name: 16 clients of ours, 16 clients of zk.Lock, and 16
// goroutines of one Locker. One operation is 320 locks by each of the three, in turn.
func BenchmarkContended(b *testing.B) {
	onServers(b, func(b *testing.B, addr string) {
		many := func(make func(*testing.B, string) contender) (all []contender) {
			for range 16 {
				all = append(all, make(b, addr))
			}
			return all
		}
		groups := [][]contender{many(ours), many(theirs), slices.Repeat([]contender{ours(b, addr)}, 16)}
		took := make([]time.Duration, len(groups))
		block := func(i int) time.Duration {
			start := time.Now()
			var wg sync.WaitGroup
			for _, c := range groups[i] {
				wg.Go(func() {
					for range 20 {
						if err := c.use(); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			return time.Since(start)
		}
		for i := range groups {
			block(i)
			block(i)
		}
		turn := 0
		for b.Loop() {
			for i := range groups {
				i := (i + turn) % len(groups)
				took[i] += block(i)
			}
			turn++
		}
		b.ReportMetric(float64(took[1])/float64(took[0]), "x-rate-of-zk.Lock")
		b.ReportMetric(float64(took[0])/float64(took[2]), "x-rate-of-clients-by-goroutines")
		b.ReportMetric(float64(b.N)*16*20/took[0].Seconds(), "locks/s")
		for i := range groups {
			for j, c := range groups[i] {
				if i < 2 || j == 0 {
					c.end()
				}
			}
		}
	})
}

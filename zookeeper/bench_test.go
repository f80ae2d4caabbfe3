package zookeeper_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/servers"
	"github.com/seed80cd6120/locker/zookeeper"
)

var (
	_ = strings.Join
	_ atomic.Int64
	_ sync.Mutex
)

type rival struct {
	name string
	lock func(name string) func()
	end  func()
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

func oursOn(tb testing.TB, addr string) rival {
	l, err := zookeeper.Connect(context.Background(), []string{addr})
	if err != nil {
		tb.Fatal(err)
	}
	return rival{"locker", func(name string) func() {
		lock, err := l.Acquire(context.Background(), name)
		if err != nil {
			panic(err)
		}
		return func() {
			if err := lock.Release(context.Background()); err != nil {
				panic(err)
			}
		}
	}, func() { _ = l.Close(context.Background()) }}
}

func zkLockOn(tb testing.TB, addr string) rival {
	c, _, err := zk.Connect([]string{addr}, 15*time.Second, zk.WithLogger(quiet{}), zk.WithLogInfo(false))
	if err != nil {
		tb.Fatal(err)
	}
	return rival{"zk.Lock", func(name string) func() {
		l := zk.NewLock(c, "/zklock-"+name, zk.WorldACL(zk.PermAll))
		if err := l.Lock(); err != nil {
			panic(err)
		}
		return func() {
			if err := l.Unlock(); err != nil {
				panic(err)
			}
		}
	}, c.Close}
}

func floorOn(tb testing.TB, addr string) rival {
	c, _, err := zk.Connect([]string{addr}, 15*time.Second, zk.WithLogger(quiet{}), zk.WithLogInfo(false))
	if err != nil {
		tb.Fatal(err)
	}
	_, _ = c.Create("/floor", nil, 0, zk.WorldACL(zk.PermAll))
	return rival{"create+delete", func(name string) func() {
		path, err := c.Create("/floor/"+name, nil, zk.FlagEphemeralSequential, zk.WorldACL(zk.PermAll))
		if err != nil {
			panic(err)
		}
		return func() {
			if err := c.Delete(path, -1); err != nil {
				panic(err)
			}
		}
	}, c.Close}
}

// TestFigures prints the figures; LOCKER_FIGURES=1 runs it.
func TestFigures(t *testing.T) {
	if os.Getenv("LOCKER_FIGURES") == "" {
		t.Skip("set LOCKER_FIGURES=1")
	}
	for _, fsync := range []bool{true, false} {
		if only := os.Getenv("LOCKER_FSYNC"); only != "" && only != fmt.Sprint(fsync) {
			continue
		}
		z := servers.NewZooKeeper(t, servers.ZooKeeperOptions{Sync: fsync, FullJIT: true})
		makers := []func(testing.TB, string) rival{oursOn, zkLockOn, floorOn}
		alone := map[string][]result{}
		for round := range 9 {
			for _, m := range makers {
				r := m(t, z.Addr())
				res := measure(t, z, []rival{r}, time.Second)
				r.end()
				if round > 0 {
					alone[r.name] = append(alone[r.name], res)
				}
			}
		}
		show(t, fmt.Sprintf("alone fsync=%v", fsync), alone)
		many := map[string][]result{}
		for round := range 9 {
			for _, m := range makers[:2] {
				var all []rival
				for range 16 {
					all = append(all, m(t, z.Addr()))
				}
				res := measure(t, z, all, time.Second)
				for _, r := range all {
					r.end()
				}
				if round > 0 {
					many[all[0].name] = append(many[all[0].name], res)
				}
			}
			r := oursOn(t, z.Addr())
			res := measure(t, z, slices.Repeat([]rival{r}, 16), time.Second)
			r.end()
			if round > 0 {
				many["16 goroutines"] = append(many["16 goroutines"], res)
			}
		}
		show(t, fmt.Sprintf("16 clients fsync=%v", fsync), many)
	}
}

type result struct {
	rate, requests float64
	p50, p99       time.Duration
	share          float64
}

func measure(tb testing.TB, z *servers.ZooKeeper, all []rival, d time.Duration) result {
	for _, r := range all {
		r.lock("bench")()
	}
	before, err := z.Requests(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	took := make([][]time.Duration, len(all))
	start := time.Now()
	var wg sync.WaitGroup
	for i, r := range all {
		wg.Go(func() {
			for time.Since(start) < d {
				t := time.Now()
				r.lock("bench")()
				took[i] = append(took[i], time.Since(t))
			}
		})
	}
	wg.Wait()
	span := time.Since(start)
	after, err := z.Requests(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	lo, hi := len(took[0]), 0
	for _, x := range took {
		lo, hi = min(lo, len(x)), max(hi, len(x))
	}
	lat := slices.Concat(took...)
	slices.Sort(lat)
	n := len(lat)
	return result{float64(n) / span.Seconds(), float64(after-before) / float64(n), lat[n/2], lat[n*99/100], float64(hi) / float64(max(lo, 1))}
}

func show(t *testing.T, what string, all map[string][]result) {
	median := func(rs []result, f func(result) float64) float64 {
		var v []float64
		for _, r := range rs {
			v = append(v, f(r))
		}
		slices.Sort(v)
		return v[len(v)/2]
	}
	for name, rs := range all {
		t.Logf("%-22s %-14s %8.0f/s %5.2f requests p50 %7.0f p99 %7.0f us share %.2f", what, name,
			median(rs, func(r result) float64 { return r.rate }),
			median(rs, func(r result) float64 { return r.requests }),
			median(rs, func(r result) float64 { return float64(r.p50.Microseconds()) }),
			median(rs, func(r result) float64 { return float64(r.p99.Microseconds()) }),
			median(rs, func(r result) float64 { return r.share }))
	}
}

var _ locker.Locker

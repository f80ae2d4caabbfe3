package etcd

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/leaks"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/servers"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
)

func cycle(t testing.TB, l locker.Locker, name string, inside func()) {
	lock, err := l.Acquire(context.Background(), name)
	if err != nil {
		t.Error(err)
		return
	}
	if inside != nil {
		inside()
	}
	locktest.Release(t, lock)
}

// TestCostAlone: two requests, renewals aside.
func TestCostAlone(t *testing.T) {
	t.Parallel()
	e := servers.NewEtcd(t, servers.EtcdOptions{})
	l := newLocker(t, dial(t, e.Addr()))
	cycle(t, l, "first", nil)
	var by map[string]int64
	n := locktest.Requests(105, func() (n int64) {
		start, since := time.Now(), requests(t, e)
		for i := range 50 {
			cycle(t, l, t.Name()+strconv.Itoa(i%5), nil)
		}
		n, by = since()
		return max(min(n, 100), n-confirmations(start))
	})
	if n < 100 || n > 105 {
		t.Errorf("50 acquisitions cost %d requests, want 100: %v", n, by)
	}
}

// confirmations is how often one holder after the other confirms its key from start until now.
func confirmations(start time.Time) int64 { return int64(time.Since(start) / checkEvery) }

// TestCostContended: 16 clients on one name, and 16 goroutines of one client.
func TestCostContended(t *testing.T) {
	for _, clients := range []int{16, 1} {
		t.Run(fmt.Sprint(clients), func(t *testing.T) {
			e := servers.NewEtcd(t, servers.EtcdOptions{})
			var all []locker.Locker
			for range clients {
				l := newLocker(t, dial(t, e.Addr()))
				cycle(t, l, "first", nil)
				all = append(all, l)
			}
			most := 4.1
			if clients == 1 { // the two keys of the Locker take turns, so that the kept watch is mostly that of the other
				most = 5
			}
			var by map[string]int64
			var shares []int64
			per := locktest.Requests(most, func() (per float64) {
				per, by, shares = contend(t, e, all)
				if slices.Min(shares) < 1000/16/2 {
					return math.Inf(1) // unfair, as a late machine may be once
				}
				return per
			})
			if per > most {
				t.Errorf("%.2f requests for each acquisition, want at most %v and like shares: %v, %v", per, most, by, shares)
			}
		})
	}
}

// contend has 16 goroutines take one name by all Lockers, a thousand times together. It returns how many requests each
// acquisition cost, confirmations aside, all requests by their kind, and how often each goroutine had the name.
func contend(t *testing.T, e *servers.Etcd, all []locker.Locker) (per float64, by map[string]int64, shares []int64) {
	start, since := time.Now(), requests(t, e)
	var inside, done atomic.Int64
	shares = make([]int64, 16)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for done.Load() < 1000 {
				cycle(t, all[i%len(all)], t.Name(), func() {
					if n := inside.Add(1); n != 1 {
						t.Errorf("%d inside", n)
					}
					inside.Add(-1)
				})
				done.Add(1)
				shares[i]++
			}
		})
	}
	wg.Wait()
	n, by := since()
	return float64(n-confirmations(start)) / float64(done.Load()), by, shares
}

// TestCostWaiting: a hundred who wait cost nothing but the renewals of their leases, and
// when their turns come at most four requests each. A release wakes only the next.
func TestCostWaiting(t *testing.T) {
	e := servers.NewEtcd(t, servers.EtcdOptions{})
	admin := dial(t, e.Addr())
	holder := patientLocker(t, admin, locker.WithTTL(lasting))
	lock, err := holder.Acquire(t.Context(), t.Name())
	must(t, err)
	const waiters = 100
	var wg sync.WaitGroup
	begun := time.Now()
	for range waiters {
		l := patientLocker(t, dial(t, e.Addr()), locker.WithTTL(lasting)) // a renewal without an answer makes it watch anew
		wg.Go(func() { cycle(t, l, t.Name(), nil) })
	}
	eventually.Within(t, 5*time.Minute, "queue", func() bool { // a hundred clients connect first
		return len(keysOf(t, admin, t.Name())) == waiters+1
	})
	// Each watches the one ahead, and soon its own key too.
	eventually.Within(t, 5*time.Minute, "all watches", func() bool { return watchers(t, e) == 2*waiters })
	var by map[string]int64
	excess := locktest.Requests(0, func() (n int64) {
		start, since := time.Now(), requests(t, e)
		time.Sleep(2 * time.Second)
		n, by = since()
		n -= confirmations(start) + 1
		if time.Since(begun) > fallbackInterval { // some look anyway, and watch anew
			n -= 3*waiters*int64(time.Since(start))/int64(fallbackInterval) + 1
		}
		return n
	})
	if excess > 0 {
		t.Errorf("%d idle waiters cost %d requests more than their holder: %v", waiters, excess, by)
	}
	released, since := time.Now(), requests(t, e)
	locktest.Release(t, lock)
	wg.Wait()
	n, by := since()
	// A look, a release and the ends of two watches; holders confirm their keys. And who has waited for long looks anyway.
	most := 4*waiters*(1+int64(time.Since(begun)/fallbackInterval)) + 20 + confirmations(released)
	if n > most {
		t.Errorf("%d requests until %d waiters had their turn, want %d at most: %v", n, waiters, most, by)
	}
}

// TestCostHolding: a thousand locks held cost a request for each 128 of them, twice a second. A late machine asks some of
// them apart.
func TestCostHolding(t *testing.T) {
	e := servers.NewEtcd(t, servers.EtcdOptions{})
	l := newLocker(t, dial(t, e.Addr()))
	const locks = 1000
	spread(locks, func(i int) {
		if _, err := l.Acquire(t.Context(), fmt.Sprint(t.Name(), i)); err != nil {
			t.Error(err)
		}
	})
	since, begun := requests(t, e), time.Now()
	time.Sleep(2 * time.Second)
	n, by := since()
	if rounds := time.Since(begun)/checkEvery + 2; n > int64(rounds)*16 {
		t.Errorf("%d requests in %v: %v", n, time.Since(begun), by)
	}
}

// TestNothingStays: names used once leave no key, lease, watch or goroutine.
func TestNothingStays(t *testing.T) {
	e := servers.NewEtcd(t, servers.EtcdOptions{})
	admin, c := dial(t, e.Addr()), dial(t, e.Addr())
	for _, c := range []*clientv3.Client{admin, c} {
		if _, err := c.Get(t.Context(), "connect"); err != nil {
			t.Fatal(err)
		}
	}
	before := goleak.IgnoreCurrent()
	lockers := make([]locker.Locker, 2)
	for i := range lockers {
		lockers[i] = patientLocker(t, c) // a lease whose grant was given up would be left
	}
	names := 10_000
	if underRace() { // which takes its time
		names = 2_000
	}
	spread(names, func(i int) { cycle(t, lockers[i%2], fmt.Sprint(t.Name(), i), nil) })
	spread(500, func(i int) { cycle(t, lockers[i%2], fmt.Sprint(t.Name(), "shared", i/8), nil) })
	keys := func() []*mvccpb.KeyValue {
		r, err := admin.Get(t.Context(), "\x00", clientv3.WithFromKey(), clientv3.WithKeysOnly())
		must(t, err)
		return r.Kvs
	}
	// A request that a late machine answered too late moves the barrier of its session, which ends with it.
	isLock := func(kv *mvccpb.KeyValue) bool { return !strings.HasPrefix(string(kv.Key), "locker/#barrier/") }
	eventually.Is(t, "no key", func() bool { return !slices.ContainsFunc(keys(), isLock) })
	if n := leases(t, admin); n != len(lockers) {
		t.Errorf("%d leases, want one for each Locker", n)
	}
	eventually.Is(t, "no watch", func() bool { return watchers(t, e) == 0 })
	for _, l := range lockers {
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if n := leases(t, admin); n != 0 {
		t.Errorf("%d leases after Close", n)
	}
	if left := keys(); len(left) > 0 {
		t.Errorf("keys after Close: %v", left)
	}
	if err := leaks.Find(before); err != nil {
		t.Error(err)
	}
}

// spread calls do for 0 to n-1, some at a time: few enough for a late machine to answer each release in time.
func spread(n int, do func(i int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	wg.Wait()
}

func underRace() bool {
	info, _ := debug.ReadBuildInfo()
	return slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

func leases(t testing.TB, c *clientv3.Client) int {
	t.Helper()
	r, err := c.Leases(context.Background())
	must(t, err)
	return len(r.Leases)
}

// watchers is how many watches the server has.
func watchers(t testing.TB, e *servers.Etcd) int {
	t.Helper()
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get("http://" + e.Addr() + "/metrics")
	must(t, err)
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	must(t, err)
	body := string(all)
	for line := range strings.Lines(body) {
		if value, ok := strings.CutPrefix(line, "etcd_debugging_mvcc_watcher_total "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			must(t, err)
			return int(n)
		}
	}
	t.Fatal("etcd does not tell its watchers")
	return 0
}

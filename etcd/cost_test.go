package etcd

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/crowd"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/servers"
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
	if err := lock.Release(context.Background()); err != nil {
		t.Error(err)
	}
}

// TestCostAlone: two requests, renewals aside.
func TestCostAlone(t *testing.T) {
	t.Parallel()
	e := servers.NewEtcd(t, servers.EtcdOptions{})
	l := newLocker(t, dial(t, e.Addr()))
	cycle(t, l, "first", nil)
	since := requests(t, e)
	for i := range 50 {
		cycle(t, l, t.Name()+strconv.Itoa(i%5), nil)
	}
	// On a slow machine the guard may have come by.
	if n, by := since(); n-by["Watch/Watch"] != 100 {
		t.Errorf("50 acquisitions cost %d requests, want 100: %v", n, by)
	}
}

// TestCostOfMeeting: who expects nobody and meets somebody asks a second time, but
// expects others from then on, also under other names, until nobody has come for a while.
func TestCostOfMeeting(t *testing.T) {
	t.Parallel()
	e := servers.NewEtcd(t, servers.EtcdOptions{})
	c := dial(t, e.Addr())
	holder, b := driverOf(t, c), driverOf(t, dial(t, e.Addr()))
	take(t, b, "session")
	transactions := func(what string, want int64, do func()) {
		t.Helper()
		since := requests(t, e)
		do()
		if _, by := since(); by["KV/Txn"] != want {
			t.Errorf("%s: %d transactions, want %d", what, by["KV/Txn"], want)
		}
	}
	meet := func(name string) func() {
		held := take(t, holder, name)
		return func() {
			granted := begin(t, b, claim(name, true))
			queued(t, c, name, 2)
			if err := errors.Join(holder.Release(t.Context(), held), <-granted); err != nil {
				t.Error(err)
			}
		}
	}
	transactions("nobody expected, somebody there", 2+1, meet("first")) // and the release
	transactions("somebody expected", 1+1, meet("second"))
	for i := range crowd.Lasts {
		take(t, b, fmt.Sprint("free", i))
	}
	transactions("nobody expected any more", 2+1, meet("third"))
	transactions("nobody expected, nobody there", 1, func() { take(t, driverOf(t, c), "fourth") })
}

// TestCostContended: 16 clients on one name, and 16 goroutines of one client.
func TestCostContended(t *testing.T) {
	t.Parallel()
	for _, clients := range []int{16, 1} {
		t.Run(fmt.Sprint(clients), func(t *testing.T) {
			t.Parallel()
			e := servers.NewEtcd(t, servers.EtcdOptions{})
			var all []locker.Locker
			for range clients {
				l := newLocker(t, dial(t, e.Addr()))
				cycle(t, l, "first", nil)
				all = append(all, l)
			}
			since := requests(t, e)
			var inside, done atomic.Int64
			shares := make([]int64, 16)
			var wg sync.WaitGroup
			for i := range 16 {
				wg.Go(func() {
					for done.Load() < 1000 {
						cycle(t, all[i%clients], t.Name(), func() {
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
			most := 4.1
			if clients == 1 {
				most = 1.25
			}
			if per := float64(n) / float64(done.Load()); per > most {
				t.Errorf("%.2f requests for each of %d acquisitions, want at most %v: %v", per, done.Load(), most, by)
			}
			for _, s := range shares {
				if s < done.Load()/16/2 {
					t.Errorf("unfair: %v", shares)
					break
				}
			}
		})
	}
}

// TestCostOfHandOver: from one to the next of the same Locker the release itself hands the
// lock over; another Locker's waiter makes sure of its place by one read.
func TestCostOfHandOver(t *testing.T) {
	t.Parallel()
	e := servers.NewEtcd(t, servers.EtcdOptions{})
	c := dial(t, e.Addr())
	holder, other := driverOf(t, c), driverOf(t, c)
	take(t, other, "session")
	for _, next := range []*backend{holder, other} {
		name := t.Name() + next.id
		held := take(t, holder, name)
		granted := begin(t, next, claim(name, true))
		queued(t, c, name, 2)
		if next == other {
			eventually.Is(t, "watch", func() bool { return watchers(t, e) > 0 })
		}
		since := requests(t, e)
		if err := errors.Join(holder.Release(t.Context(), held), <-granted); err != nil {
			t.Error(err)
		}
		_, by := since()
		reads := int64(0)
		if next == other {
			reads = 1
		}
		if by["KV/Txn"] != 1 || by["KV/Range"] != reads {
			t.Errorf("%d reads wanted after the release: %v", reads, by)
		}
	}
}

// TestCostWaiting: a hundred who wait cost nothing but the renewals of their leases, and
// when their turns come at most three requests each. A release wakes only the next.
func TestCostWaiting(t *testing.T) {
	t.Parallel()
	e := servers.NewEtcd(t, servers.EtcdOptions{})
	admin := dial(t, e.Addr())
	holder := newLocker(t, admin)
	lock, err := holder.Acquire(t.Context(), t.Name())
	if err != nil {
		t.Fatal(err)
	}
	const waiters = 100
	var wg sync.WaitGroup
	for range waiters {
		l := newLocker(t, dial(t, e.Addr()))
		wg.Go(func() { cycle(t, l, t.Name(), nil) })
	}
	eventually.Is(t, "queue", func() bool {
		r, err := admin.Get(t.Context(), DefaultPrefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
		return err == nil && r.Count == waiters+1
	})
	// They have yet to look after their watches began, and the holder's guard is to come.
	rests(t, e)
	since := requests(t, e)
	time.Sleep(2 * time.Second)
	if n, by := since(); n != 0 {
		t.Errorf("%d idle waiters cost %d requests in 2 s: %v", waiters, n, by)
	}
	since = requests(t, e)
	if err := lock.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if n, by := since(); n > 3*waiters {
		t.Errorf("%d requests until %d waiters had their turn: %v", n, waiters, by)
	}
}

// TestCostHolding: a thousand locks held cost one question for all of them now and
// then, aside from the renewals of the lease and a few watches.
func TestCostHolding(t *testing.T) {
	t.Parallel()
	e := servers.NewEtcd(t, servers.EtcdOptions{})
	l := newLocker(t, dial(t, e.Addr()))
	const locks = 1000
	since := requests(t, e)
	spread(locks, func(i int) {
		if _, err := l.Acquire(t.Context(), fmt.Sprint(t.Name(), i)); err != nil {
			t.Error(err)
		}
	})
	begun := time.Now()
	var n int64
	var by map[string]int64
	eventually.Is(t, "questions what is left", func() bool {
		n, by = since()
		return by["Lease/LeaseTimeToLive"] > 2
	})
	most := float64(locks+1) + guardMost + time.Since(begun).Seconds()/askEvery.Seconds() + 20 // while they were acquired
	if float64(n) > most {
		t.Errorf("%d requests, want at most %.0f: %v", n, most, by)
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
		var err error
		if lockers[i], err = New(c); err != nil {
			t.Fatal(err)
		}
	}
	names := 10_000
	if underRace() { // which takes its time
		names = 2_000
	}
	spread(names, func(i int) { cycle(t, lockers[i%2], fmt.Sprint(t.Name(), i), nil) })
	spread(500, func(i int) { cycle(t, lockers[i%2], fmt.Sprint(t.Name(), "shared", i/8), nil) })
	r, err := admin.Get(t.Context(), "\x00", clientv3.WithFromKey(), clientv3.WithKeysOnly())
	if err != nil || len(r.Kvs) > 0 {
		t.Errorf("keys: %v %v", r.Kvs, err)
	}
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
	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
}

// spread calls do for 0 to n-1, some at a time.
func spread(n int, do func(i int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 256 {
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
	if err != nil {
		t.Fatal(err)
	}
	return len(r.Leases)
}

// watchers is how many watches the server has.
func watchers(t testing.TB, e *servers.Etcd) int {
	t.Helper()
	body := httpGet(t, "http://"+e.Addr()+"/metrics")
	for line := range strings.Lines(body) {
		if value, ok := strings.CutPrefix(line, "etcd_debugging_mvcc_watcher_total "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				t.Fatal(err)
			}
			return int(n)
		}
	}
	t.Fatal("etcd does not tell its watchers")
	return 0
}

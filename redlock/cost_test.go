package redlock

import (
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/lateness"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/servers"
)

// cost returns how many requests f costs all nodes together; it does not look for less than enough.
func cost(t testing.TB, set []*servers.Redis, enough int64, f func()) int64 {
	t.Helper()
	return locktest.Requests(enough, func() int64 {
		before := requests(t, set)
		f()
		return requests(t, set) - before
	})
}

// A lock costs each node two requests.
func TestRequestsAlone(t *testing.T) { eitherWay(t, requestsAlone) }

func requestsAlone(t *testing.T, opts ...locker.Option) {
	set := servers.NewRedisSet(t, 5, servers.RedisOptions{})
	b := newDriver(t, addrs(set), opts...)
	ctx := within(t, 10*time.Minute)
	cycle := func() {
		c := driverClaim(t.Name(), 30*time.Second, false)
		take(t, b, c)
		must(t, b.Release(ctx, c))
		<-b.working.None()
	}
	cycle()
	if n := cost(t, set, 10, cycle); n > 10 {
		t.Errorf("%d requests for a lock taken and released, want 10 at most", n)
	}
}

// It costs little more if several want it: who waits asks once, and is told.
func TestRequestsContended(t *testing.T) { eitherWay(t, requestsContended) }

func requestsContended(t *testing.T, opts ...locker.Option) {
	set := servers.NewRedisSet(t, 5, servers.RedisOptions{})
	var clients []locker.Locker
	for range 4 {
		clients = append(clients, open(t, addrs(set), opts...))
	}
	ctx := within(t, 10*time.Minute)
	late, giveBack := lateness.Share()
	defer giveBack()
	calm := false
	const each = 20
	some := func() {
		start := time.Now()
		var wg sync.WaitGroup
		for _, l := range clients {
			wg.Go(func() {
				for range each {
					lock, err := l.Acquire(ctx, t.Name())
					if err != nil {
						t.Error(err)
						return
					}
					if err := locktest.Freed(ctx, lock); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		calm = calm || late.Worst(start) <= lateness.Limit
	}
	some()
	calm = false
	most := 12 * int64(len(clients)*each)
	n := cost(t, set, most, some)
	switch { // who is told late looks again
	case n > most && calm, n > 3*most:
		t.Errorf("%d requests for %d locks, want 12 each at most", n, most/12)
	case n > most:
		t.Logf("not judged, the machine is late: %d requests for %d locks", n, most/12)
	}
}

// Handing over costs nothing more: the release tells the next.
func TestRequestsOfHandOver(t *testing.T) {
	set := servers.NewRedisSet(t, 5, servers.RedisOptions{})
	nodes := addrs(set)
	ctx := within(t, 10*time.Minute)
	a, b := newDriver(t, nodes), newDriver(t, nodes)
	holder := driverClaim(t.Name(), 10*time.Minute, false)
	take(t, a, holder)
	pass := func() {
		next := driverClaim(t.Name(), 10*time.Minute, true)
		w := begin(ctx, b, next)
		waits(t, connect(t, nodes...), t.Name(), 1)
		must(t, a.Release(ctx, holder))
		w.Granted(t, 10*time.Second)
		a, b, holder = b, a, next
	}
	pass()
	pass()
	look := func() int64 { // what waits itself costs
		return cost(t, set, math.MaxInt64, func() { waits(t, connect(t, nodes...), t.Name(), 0) })
	}
	looks := min(look(), look(), look())
	if n := cost(t, set, 10+4*looks, pass); n > 10+4*looks {
		t.Errorf("%d requests for a lock passed on, want 10; to see that somebody waits costs %d", n, looks)
	}
	must(t, a.Release(ctx, holder))
}

// A lock that is held for longer is on all nodes, whichever way it was got.
func TestHeldLockReachesAllNodes(t *testing.T) {
	t.Parallel()
	nodes := five(t)
	ctx := within(t, 60*time.Second)
	b := newDriver(t, nodes)
	c, next := driverClaim(t.Name(), 10*time.Minute, false), driverClaim(t.Name(), 10*time.Minute, true)
	take(t, b, c)
	onAllFive(t, nodes)
	w := begin(ctx, b, next)
	waits(t, connect(t, nodes...), t.Name(), 1)
	must(t, b.Release(ctx, c))
	w.Granted(t, 10*time.Second)
	onAllFive(t, nodes)
	if _, err := renewed(t, b, next); err != nil {
		t.Error(err)
	}
	must(t, b.Release(ctx, next))
}

// Many who hold names for long are renewed with few requests, and each is told of.
func TestRenewalIsOneRequest(t *testing.T) {
	set := servers.NewRedisSet(t, 5, servers.RedisOptions{})
	b := newDriver(t, addrs(set))
	ctx := within(t, 10*time.Minute)
	var claims []*driver.Claim
	for i := range 60 {
		c := driverClaim(fmt.Sprint(t.Name(), i), 10*time.Minute, false)
		take(t, b, c)
		claims = append(claims, c)
	}
	keys(t, addrs(set), 300, time.Minute)
	held := 0
	n := cost(t, set, 5, func() {
		held = 0
		b.Renew(ctx, claims, func(_ *driver.Claim, until driver.Instant, err error) {
			if err == nil && until > b.clock.Now() {
				held++
			}
		})
	})
	if held != 60 || n > 5 {
		t.Errorf("%d requests to renew %d of 60", n, held)
	}
}

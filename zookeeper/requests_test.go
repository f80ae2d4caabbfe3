package zookeeper

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/servers"
)

// requests counts what do costs the server, and waits until it has arrived.
func requests(t *testing.T, z *servers.ZooKeeper, do func()) int64 {
	t.Helper()
	before, err := z.Requests(within(t, time.Minute))
	must(t, err)
	do()
	after, err := z.Requests(within(t, time.Minute))
	must(t, err)
	return after - before
}

// watches waits until the server keeps so many, or more. It is the last that a waiter asks for.
func watches(t *testing.T, z *servers.ZooKeeper, n int) {
	t.Helper()
	eventually.Is(t, fmt.Sprintf("%d watches", n), func() bool {
		_, total, _ := strings.Cut(word(t, z, "wchs"), "Total watches:")
		got, err := strconv.Atoi(strings.TrimSpace(total))
		return err == nil && got >= n
	})
}

// watchers returns how many sessions watch each path.
func watchers(t *testing.T, z *servers.ZooKeeper) map[string]int {
	t.Helper()
	watched, path := make(map[string]int), ""
	for line := range strings.Lines(word(t, z, "wchp")) {
		switch line = strings.TrimRight(line, "\r\n"); {
		case strings.HasPrefix(line, "/"):
			path = line
		case strings.HasPrefix(line, "\t0x"):
			watched[path]++
		}
	}
	return watched
}

func TestAloneTakesTwoRequests(t *testing.T) {
	z := counted.beside(t)
	d := raw(t, []string{z.Addr()}, locker.WithTTL(time.Minute)) // no ping meanwhile
	once := func() {
		c := claim("a")
		take(t, d, c)
		must(t, d.Release(context.Background(), c))
	}
	once()
	if n := locktest.Requests(20, func() int64 {
		return requests(t, z, func() {
			for range 10 {
				once()
			}
		})
	}); n != 20 {
		t.Errorf("10 locks took %d requests", n)
	}
}

// A waiter lists the queue when it enters and when the one before it has gone, however many were
// before that, and idles for nothing.
func TestWaiterTakesFiveRequests(t *testing.T) {
	z := counted.beside(t)
	t.Run("exclusive", func(t *testing.T) { waitersTakeFiveRequests(t, z, driver.All, driver.All) })
	t.Run("permits", func(t *testing.T) { waitersTakeFiveRequests(t, z, 2, 3) })
}

// waitersTakeFiveRequests tests it with claims of which no two fit beside each other.
func waitersTakeFiveRequests(t *testing.T, z *servers.ZooKeeper, weight, limit int32) {
	op := console(t, z.Addr())
	const n = 6
	d := raw(t, []string{z.Addr()}, locker.WithTTL(time.Minute))
	tokens := int64(0)
	if got := locktest.Requests(2*n+1, func() int64 {
		first := kind("a", weight, limit)
		take(t, d, first)
		var turns []*acquisition
		for i := range n {
			turns = append(turns, begin(within(t, time.Minute), d, kind("a", weight, limit)))
			op.length("a", i+2)
		}
		watches(t, z, n)
		return requests(t, z, func() {
			release(t, d, first)
			for _, turn := range turns {
				g := turn.Granted(t, patience)
				if g.Token <= tokens {
					t.Errorf("token %d after %d", g.Token, tokens)
				}
				tokens = g.Token
				release(t, d, turn.Claim)
			}
		})
	}); got != 2*n+1 {
		t.Errorf("%d waiters had their turn with %d requests, want one to look and one to release each, and one by the first", n, got)
	}
	if w := word(t, z, "wchs"); !strings.Contains(w, "Total watches:0") {
		t.Errorf("watches are left: %s", w)
	}
}

// Separate clients that wait cost the server nothing but pings, which do not come while the test lasts, and a release wakes
// one of them.
func TestHundredIdleWaiters(t *testing.T) {
	z := counted.beside(t)
	op := console(t, z.Addr())
	const n = 100
	ctx := within(t, 5*time.Minute)
	d := raw(t, []string{z.Addr()}, locker.WithTTL(time.Hour)) // and nobody who renews
	held := claim("a")
	take(t, d, held)
	var opened, wg sync.WaitGroup
	for range n {
		opened.Go(func() {
			l := open(t, []string{z.Addr()}, locker.WithTTL(time.Hour))
			wg.Go(func() {
				lock, err := l.Acquire(ctx, "a")
				if err == nil {
					err = freed(ctx, lock)
				}
				if err != nil {
					t.Error(err)
				}
			})
		})
	}
	opened.Wait()
	op.length("a", n+1)
	watches(t, z, 2*n) // who has waited for 5 s watches its own node, too
	const pings = 3    // of the console, whose session is not so long
	if got := locktest.Requests(pings, func() int64 {
		return requests(t, z, func() { time.Sleep(firstLook) })
	}); got > pings {
		t.Errorf("%d waiters made %d requests in %v", n, got, firstLook)
	}
	start := time.Now()
	got := requests(t, z, func() {
		must(t, d.Release(ctx, held))
		wg.Wait()
	})
	t.Logf("%.2f requests for each waiter's turn", float64(got)/n)
	again := n * int64(time.Since(start)/(10*time.Second)) // on a machine that is late
	if got > n*3+again {
		t.Errorf("%d waiters had their turn with %d requests in %v", n, got, time.Since(start))
	}
}

// A hundred clients share ten permits: never eleven hold, none is left idle while somebody waits, and what an
// acquisition costs does not grow with those who wait.
func TestHundredClientsForTenPermits(t *testing.T) {
	z := counted.beside(t)
	const clients, permits, rounds = 100, 10, 4
	ctx := within(t, 5*time.Minute)
	var mu sync.Mutex
	held, most := 0, 0
	full := make(chan struct{}) // closed when all permits are held, for which the first holders wait
	enter := func(n int) {
		mu.Lock()
		defer mu.Unlock()
		held += n
		if held == permits && most < permits {
			close(full)
		}
		most = max(most, held)
	}
	var drivers []*backend
	for range clients / 5 {
		drivers = append(drivers, raw(t, []string{z.Addr()}, locker.WithTTL(time.Hour)))
	}
	start := time.Now()
	cost := requests(t, z, func() {
		var wg sync.WaitGroup
		for i := range clients {
			wg.Go(func() {
				for range rounds {
					d, c := drivers[i%len(drivers)], kind("a", 1, permits)
					if _, err := d.Acquire(ctx, c); err != nil {
						t.Error(err)
						return
					}
					enter(1)
					select {
					case <-full:
					case <-ctx.Done():
					}
					time.Sleep(5 * time.Millisecond) // the work
					enter(-1)
					if err := d.Release(ctx, c); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
	})
	looks := 4 * clients * int64(time.Since(start)/firstLook) // on a machine that is late
	each := float64(cost-looks) / (clients * rounds)
	t.Logf("%.2f requests for each of %d acquisitions, at most %d held", each, clients*rounds, most)
	// One request each to join, to list the queue twice, to watch the one ahead, to say that it is granted, and to leave. The
	// first who waits watches the whole queue, and lists it twice each time that somebody joins or leaves too early for it.
	const allowed = 6 + 2*2
	if most != permits || each > allowed {
		t.Errorf("%d held at once, want %d; %.2f requests each", most, permits, each)
	}
}

// Behind one who holds all permits the first to wait watches it, and each other the one ahead: the release wakes one.
func TestReleaseOfAllPermitsWakesNoHerd(t *testing.T) {
	z := counted.beside(t)
	const waiters, permits = 12, 3
	op, d := console(t, z.Addr()), raw(t, []string{z.Addr()})
	h := kind("a", permits, permits)
	take(t, d, h)
	var drivers []*backend
	var turns []*acquisition
	for i := range waiters { // each in a session of its own, which the server counts watches by
		drivers = append(drivers, raw(t, []string{z.Addr()}))
		turns = append(turns, begin(within(t, 5*time.Minute), drivers[i], kind("a", 1, permits)))
		op.length("a", i+2)
	}
	var watched map[string]int
	eventually.Is(t, "everybody to watch", func() bool {
		watched = watchers(t, z)
		return len(watched) >= waiters || watched[op.nodeOf(h)] == waiters
	})
	if n := watched[op.nodeOf(h)]; n != 1 {
		t.Errorf("%d watch the holder", n)
	}
	release(t, d, h)
	for _, turn := range turns[:permits] {
		turn.Granted(t, patience)
	}
	stillWaits(t, turns[permits], drivers[permits])
}

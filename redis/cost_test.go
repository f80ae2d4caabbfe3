package redis

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/leaks"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/servers"
)

func requestsAt(t testing.TB, r *servers.Redis) int64 {
	t.Helper()
	n, err := r.Requests(context.Background())
	must(t, err)
	return n
}

// A free name is taken and released by two requests.
func TestTwoRequests(t *testing.T) {
	t.Parallel()
	r := servers.NewRedis(t, servers.RedisOptions{})
	l := open(t, connect(t, r.Addr()))
	name := freshName(t)
	release(t, acquire(t, l, name))
	for what, do := range map[string]func(context.Context, string, ...locker.AcquireOption) (*locker.Lock, error){"try": l.TryAcquire, "acquire": l.Acquire} {
		n := locktest.Requests(44, func() int64 {
			before := requestsAt(t, r)
			for range 20 {
				lock, err := do(within(t, 20*time.Second), name)
				must(t, err)
				release(t, lock)
			}
			return requestsAt(t, r) - before
		})
		if n < 40 || n > 44 {
			t.Errorf("%s: %d requests for 20 times, want 40", what, n)
		}
	}
}

// Whatever is waited for in one Locker, the server tells it on one connection.
func TestOneSubscription(t *testing.T) {
	t.Parallel()
	r := servers.NewRedis(t, servers.RedisOptions{})
	admin := connect(t, r.Addr())
	a, b := open(t, connect(t, r.Addr())), open(t, connect(t, r.Addr()))
	ctx := within(t, 5*time.Minute)
	var held []*locker.Lock
	var waiters []*locktest.Acquisition[*locker.Lock]
	for range 20 {
		name := freshName(t)
		held = append(held, acquire(t, a, name))
		waiters = append(waiters, wants(ctx, b, name))
		queued(t, admin, name, 1)
	}
	subscribed, err := admin.Do(ctx, "CLIENT", "LIST", "TYPE", "pubsub").Text()
	if err != nil || strings.Count(subscribed, "\n") != 1 {
		t.Errorf("connections that the server tells something on: %q, %v", subscribed, err)
	}
	for i, lock := range held {
		release(t, lock)
		release(t, waiters[i].Granted(t, slack))
	}
}

// Waiters cost the server next to nothing, and no more than a release each when
// they have their turn.
func TestHundredWaiters(t *testing.T) {
	t.Parallel()
	const n = 100
	r := servers.NewRedis(t, servers.RedisOptions{})
	admin := connect(t, r.Addr())
	name := freshName(t)
	lock := acquire(t, open(t, connect(t, r.Addr()), locker.WithTTL(10*time.Minute)), name)
	ctx := within(t, 10*time.Minute)
	var wg sync.WaitGroup
	for range n {
		l := open(t, connect(t, r.Addr()))
		wg.Go(func() {
			lock, err := l.Acquire(ctx, name)
			if err == nil {
				err = locktest.Freed(ctx, lock)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	queued(t, admin, name, n)
	// Those who came early may still look once because their subscription is new.
	for before := requestsAt(t, r); ; {
		time.Sleep(300 * time.Millisecond)
		now := requestsAt(t, r)
		if now-before <= 5 {
			break
		}
		before = now
	}
	const window = 15 * time.Second // each looks once in that time
	idle := locktest.Requests(0.15, func() float64 {
		before, begun := requestsAt(t, r), time.Now()
		time.Sleep(window)
		return float64(requestsAt(t, r)-before) / time.Since(begun).Seconds() / n
	})
	if idle >= 0.15 {
		t.Errorf("%.2f requests a second for each waiter", idle)
	}
	before, begun := requestsAt(t, r), time.Now()
	release(t, lock)
	wg.Wait()
	drained, looks := requestsAt(t, r)-before, time.Since(begun).Seconds()/10
	if each := float64(drained) / n; each > 3+looks {
		t.Errorf("%.2f requests for each waiter until all had their turn", each)
	}
	t.Logf("idle: %.3f requests a second for each waiter; drain: %d", idle, drained)
}

// Ten thousand locks of one Locker, three thousand of them with names of the greatest length, are renewed in time, without a
// goroutine each, if the machine can acquire so many in their TTL. None is lost but one that is deleted, which is told within a second.
func TestTenThousandHeld(t *testing.T) {
	t.Parallel()
	const n, long, workers = 10000, 3000, 8
	r := servers.NewRedis(t, servers.RedisOptions{})
	pace := locktest.Pace(t, open(t, connect(t, r.Addr())), n)
	ttl := time.Minute + pace/4 // renewals follow one another more slowly on a slow machine
	l := open(t, connect(t, r.Addr()), locker.WithTTL(ttl))
	patience := time.Hour
	if deadline, ok := t.Deadline(); ok { // only that of the run: a late machine needs as long as it needs
		patience = time.Until(deadline) - time.Minute
	}
	ctx := within(t, patience)
	held := make([]*locker.Lock, n)
	renewed := make([]func() bool, n) // since it was acquired
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < n; i += workers {
				name := fmt.Sprint(t.Name(), i)
				if i < long {
					name = fmt.Sprintf("%01024d", i)
				}
				lock, err := l.Acquire(ctx, name)
				if err != nil {
					t.Error(err)
					return
				}
				held[i], renewed[i] = lock, renewal(t, lock)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	eventually.Is(t, "at most 1,000 goroutines between two renewals", func() bool { return runtime.NumGoroutine() <= 1000 })
	waitFor := renewed
	eventually.Within(t, ttl, "all renewed", func() bool {
		for len(waitFor) > 0 && waitFor[0]() {
			waitFor = waitFor[1:]
		}
		return len(waitFor) == 0
	})
	deleted := long / 2
	connect(t, r.Addr()).Del(ctx, lockKey(held[deleted].Name()))
	lost(t, held[deleted], time.Second+slack+pace/4) // a look at all of them takes a part of what acquiring them does
	for i, lock := range held {
		if i != deleted && lock.Context().Err() != nil {
			t.Fatalf("%d: %v", i, context.Cause(lock.Context()))
		}
	}
}

// After Close nothing is left on the client: no goroutine, no connection; and the
// subscription does not outlive its last waiter by much.
func TestNothingLeftOnTheClient(t *testing.T) {
	r := servers.SharedRedis(t)
	before := goleak.IgnoreCurrent()
	client := connect(t, r.Addr())
	a, b := open(t, client, lasting), open(t, client, lasting)
	name := freshName(t)
	for range 3 {
		lock := acquire(t, a, name)
		w := wants(within(t, 20*time.Second), b, name)
		queued(t, client, name, 1)
		gaveUp, cancel := context.WithCancel(context.Background())
		other := wants(gaveUp, b, name)
		cancel()
		<-other.Done
		release(t, lock)
		release(t, w.Granted(t, slack))
	}
	channels := func() int {
		all, _ := client.PubSubChannels(context.Background(), DefaultPrefix+":wake:*").Result()
		return len(all)
	}
	if n := channels(); n == 0 {
		t.Error("no subscription: the test shows nothing")
	}
	acquire(t, a, name)
	ctx := within(t, 20*time.Second)
	for _, l := range []locker.Locker{a, b} {
		if err := l.Close(ctx); err != nil {
			t.Error(err)
		}
	}
	nothingLeft(t, client, name)
	client.Close()
	if err := leaks.Find(before); err != nil {
		t.Error(err)
	}
}

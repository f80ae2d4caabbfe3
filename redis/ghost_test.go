package redis

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/servers"
)

// Nothing comes later of what was given up.

// Row 25: cancelled at any moment of the exchange, nothing stays.
func TestCancelledAtAnyMoment(t *testing.T) {
	t.Parallel()
	r := servers.SharedRedis(t)
	admin := connect(t, r.Addr())
	p := front(t, r.Addr())
	p.Delay(2*time.Millisecond, 2*time.Millisecond)
	var lockers []locker.Locker
	for range 4 {
		l := open(t, connect(t, p.Addr()), lasting)
		lockers = append(lockers, l, l, l)
	}
	name := freshName(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var last int64
	granted := 0
	for i, l := range lockers {
		wg.Go(func() {
			for range 20 {
				ctx, cancel := context.WithCancel(context.Background())
				time.AfterFunc(rand.N(40*time.Millisecond), cancel)
				var lock *locker.Lock
				var err error
				if i%4 == 0 {
					lock, err = l.TryAcquire(ctx, name)
				} else {
					lock, err = l.Acquire(ctx, name)
				}
				if err == nil {
					mu.Lock()
					granted++
					if lock.Token() <= last {
						t.Errorf("token %d after %d", lock.Token(), last)
					}
					last = lock.Token()
					mu.Unlock()
					if err := locktest.Freed(context.Background(), lock); err != nil {
						t.Error(err)
					}
				}
				cancel()
			}
		})
	}
	wg.Wait()
	nothingLeft(t, admin, name)
	t.Logf("%d of 240 were granted", granted)
	release(t, acquire(t, lockers[0], name))
}

// Row 22: the server stalls. The holder loses its lock at the deadline; waiters go on
// after.
func TestServerStalls(t *testing.T) {
	t.Parallel()
	r := servers.NewRedis(t, servers.RedisOptions{})
	admin := connect(t, r.Addr())
	const ttl = 10 * time.Second
	a, b := open(t, connect(t, r.Addr()), locker.WithTTL(ttl)), open(t, connect(t, r.Addr()), locker.WithTTL(ttl))
	name := freshName(t)
	lock := acquire(t, a, name)
	w := wants(within(t, 60*time.Second), b, name)
	queued(t, admin, name, 1)
	must(t, r.Pause())
	lost(t, lock, ttl+slack)
	must(t, r.Resume())
	next := w.Granted(t, 3*time.Second+slack)
	if next.Token() <= lock.Token() {
		t.Errorf("token %d after %d", next.Token(), lock.Token())
	}
	if err := lock.Release(within(t, 10*time.Second)); !errors.Is(err, locker.ErrLost) {
		t.Errorf("release after the loss: %v", err)
	}
	release(t, next)
}

// Row 41: connections are cut all the time under load.
func TestConnectionsCutUnderLoad(t *testing.T) {
	t.Parallel()
	r := servers.SharedRedis(t)
	admin := connect(t, r.Addr())
	p := front(t, r.Addr())
	ctx := within(t, 5*time.Minute)
	name := freshName(t)
	stop := make(chan struct{})
	var wg, cutter sync.WaitGroup
	var grants atomic.Int64
	cutter.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
				// A late machine needs longer for an acquisition.
				n := grants.Load()
				for wait := time.Now().Add(10 * time.Second); grants.Load() == n && time.Now().Before(wait); {
					time.Sleep(time.Millisecond)
				}
				p.Cut()
			}
		}
	})
	var mu sync.Mutex
	var holder *locker.Lock
	last := int64(0)
	end, late := time.Now().Add(2*time.Second), time.Now().Add(3*time.Minute)
	var lockers []locker.Locker
	for range 6 {
		l := open(t, connect(t, p.Addr()), lasting)
		lockers = append(lockers, l, l)
	}
	for _, l := range lockers {
		wg.Go(func() {
			for time.Now().Before(end) || grants.Load() < 50 && time.Now().Before(late) {
				lock, err := l.Acquire(ctx, name)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if holder != nil && holder.Context().Err() == nil && time.Until(holder.Deadline()) > 0 && lock.Context().Err() == nil {
					t.Error("two holders")
				}
				holder = lock
				if lock.Token() <= last {
					t.Errorf("token %d after %d", lock.Token(), last)
				}
				last = lock.Token()
				grants.Add(1)
				mu.Unlock()
				time.Sleep(time.Millisecond) // while others may come
				mu.Lock()
				if holder == lock {
					holder = nil
				}
				mu.Unlock()
				if err := locktest.Freed(ctx, lock); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	close(stop)
	cutter.Wait()
	nothingLeft(t, admin, name)
	if grants.Load() < 50 {
		t.Error("too few acquisitions")
	}
	t.Logf("%d acquisitions", grants.Load())
}

// Who is told that the name is taken, after an earlier sending of the request had no answer, leaves
// nothing that could take it later.
func TestTakenAfterALostRequest(t *testing.T) {
	t.Parallel()
	r := servers.SharedRedis(t)
	admin := connect(t, r.Addr())
	p := front(t, r.Addr())
	a, b := opened(t, admin), opened(t, connect(t, p.Addr()))
	warm := claim(freshName(t), time.Minute, false)
	take(t, b, warm)
	free(t, b, warm)
	h := claim(freshName(t), time.Minute, false)
	take(t, a, h)
	c := claim(h.Name, time.Minute, false)
	p.SwallowReply(tries, 0)
	began := time.Now()
	taken(t, b, c)
	swallowed(t, p, 1)
	gone := strings.TrimSuffix(clockKey(h.Name), "clock") + "gone:" + c.ID
	// It has to stay as long as a request of the claim may have an effect, which is 5 s.
	if left := admin.PTTL(context.Background(), gone).Val(); left <= 0 && time.Since(began) < 4900*time.Millisecond {
		t.Errorf("no tombstone is left: a late request of the claim would take the name (%v)", left)
	}
	free(t, a, h)
}

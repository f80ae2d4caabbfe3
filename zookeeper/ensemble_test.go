package zookeeper

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/servers"
)

// The leader is killed while a lock is held, others wait, and more come and go. The
// session outlives it: the holder keeps its lock, nobody else gets it, all go on.
func TestLeaderKilled(t *testing.T) {
	e := ensemble.beside(t)
	ctx := within(t, 5*time.Minute)
	must(t, e.WaitReady(ctx))
	const ttl = time.Minute
	holder := open(t, e.Addrs(), locker.WithTTL(ttl))
	held, err := holder.Acquire(ctx, "held")
	must(t, err)

	var mu sync.Mutex
	var order []int64
	note := func(token int64) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, token)
	}
	var wg sync.WaitGroup
	for range 3 {
		l := open(t, e.Addrs(), locker.WithTTL(ttl))
		wg.Go(func() {
			lock, err := l.Acquire(ctx, "held")
			if err != nil {
				t.Error(err)
				return
			}
			note(lock.Token())
			if err := freed(ctx, lock); err != nil {
				t.Errorf("release by a waiter: %v", err)
			}
		})
	}
	console(t, e.Addrs()[0]).length("held", 4)

	busy := make(chan struct{})
	inside := make(map[*locker.Lock]bool)
	for i := range 3 {
		l := open(t, e.Addrs(), locker.WithTTL(ttl))
		wg.Go(func() {
			last := int64(0)
			for n := 0; ; n++ {
				select {
				case <-busy:
					return
				default:
				}
				lock, err := l.Acquire(ctx, "busy")
				if err != nil {
					t.Errorf("client %d: %v", i, err)
					return
				}
				if lock.Token() <= last {
					t.Errorf("token %d after %d", lock.Token(), last)
				}
				last = lock.Token()
				mu.Lock()
				for other := range inside {
					if other.Context().Err() == nil && lock.Context().Err() == nil { // asked in this order
						t.Error("two hold")
					}
				}
				inside[lock] = true
				mu.Unlock()
				time.Sleep(time.Millisecond) // the work
				mu.Lock()
				delete(inside, lock)
				mu.Unlock()
				if err := freed(ctx, lock); err != nil {
					t.Errorf("client %d: release: %v", i, err)
				}
			}
		})
	}
	must(t, killLeader(ctx, e))
	if err := held.Context().Err(); err != nil {
		t.Errorf("the holder lost its lock: %v", context.Cause(held.Context()))
	}
	mu.Lock()
	if len(order) > 0 {
		t.Error("a waiter was granted a lock that is held")
	}
	mu.Unlock()
	if err := freed(ctx, held); err != nil {
		t.Errorf("release: %v", err)
	}
	close(busy)
	wg.Wait()
	last := held.Token()
	for _, token := range order {
		if token <= last {
			t.Errorf("tokens %d %v", held.Token(), order)
		}
		last = token
	}
	if len(order) != 3 {
		t.Errorf("%d of 3 waiters had their turn", len(order))
	}
	must(t, e.WaitReady(ctx))
	for i, addr := range e.Addrs() {
		eventually.Is(t, fmt.Sprint("nothing left on member ", i), func() bool {
			left, err := leftovers(ctx, []string{addr}, "")
			return err == nil && len(left) == 0
		})
	}
}

// A leader that is cut off from the others goes on answering for a while, also a sync. That lengthens nobody's session: the
// others may have elected another leader.
func TestLeaderCutOffConfirmsNothing(t *testing.T) {
	e := ensemble.beside(t)
	ctx := within(t, 5*time.Minute)
	must(t, e.WaitReady(ctx))
	leader, err := e.Leader(ctx)
	must(t, err)
	d := raw(t, []string{leader.Addr()}, locker.WithTTL(5*time.Second))
	c := claim(name(t))
	take(t, d, c)
	for _, z := range e.Members {
		if z != leader {
			must(t, z.Pause())
			defer z.Resume()
		}
	}
	paused := d.clock.Now()
	eventually.Is(t, "the leader to give up", func() bool {
		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		d.Renew(short, []*driver.Claim{c}, func(*driver.Claim, driver.Instant, error) {})
		return d.disconnected()
	})
	if _, until := d.state(); until > paused.Add(d.granted()) {
		t.Errorf("the session lives until %v after what the others can have heard", until.Sub(paused.Add(d.granted())))
	}
}

// With two of three members gone nothing is granted, calls end by their ctx, and
// waiters go on when the members are back.
func TestQuorumLost(t *testing.T) {
	e := ensemble.beside(t)
	ctx := within(t, 5*time.Minute)
	must(t, e.WaitReady(ctx))
	l := open(t, e.Addrs(), locker.WithTTL(10*time.Second))
	held, err := l.Acquire(ctx, "held")
	must(t, err)
	must(t, servers.Each(e.Members[:2], (*servers.ZooKeeper).Kill))
	short, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	if lock, err := l.Acquire(short, "other"); err == nil {
		t.Errorf("granted without a quorum: %d", lock.Token())
	}
	turn := make(chan error, 1)
	go func() {
		lock, err := l.Acquire(ctx, "other")
		if err == nil {
			err = freed(ctx, lock)
		}
		turn <- err
	}()
	locktest.Lost(t, held, 10*time.Second) // not beyond the session timeout
	must(t, servers.Each(e.Members[:2], func(z *servers.ZooKeeper) error { return z.RestartNoWait(ctx) }))
	must(t, e.WaitReady(ctx))
	if err := await(t, turn, "the waiter's turn"); err != nil {
		t.Error(err)
	}
	for i := range 3 {
		lock, err := l.Acquire(ctx, fmt.Sprint("after ", i))
		must(t, err)
		if err := freed(ctx, lock); err != nil {
			t.Error(err)
		}
	}
}

package redlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/servers"
)

// Two hold, which RedLock cannot prevent, and their tokens tell who came later: a
// node restarts without its data.
func TestNodeThatRestartsEmpty(t *testing.T) {
	t.Parallel()
	set := servers.NewRedisSet(t, 5, servers.RedisOptions{})
	nodes := addrs(set)
	clients := connect(t, nodes...)
	a, b := newDriver(t, nodes), newDriver(t, nodes)
	ctx := within(t, 2*time.Minute)
	first := driverClaim(t.Name(), time.Minute, false)
	g1, err := a.Acquire(ctx, first)
	must(t, err)
	// The first holds exactly three of five: what the others had not got in time.
	onAllFive(t, nodes)
	for _, i := range []int{3, 4} {
		must(t, clients[i].Del(ctx, lockKey(t.Name())).Err())
	}
	must(t, set[2].Kill())
	time.Sleep(1100 * time.Millisecond) // see docs/design/redlock.md, "Tokens"
	must(t, set[2].RestartEmpty(ctx))
	second := driverClaim(t.Name(), time.Minute, false)
	g2, err := b.Acquire(ctx, second)
	must(t, err)
	if g2.Token <= g1.Token {
		t.Errorf("token %d after %d", g2.Token, g1.Token)
	}
	if err := a.Release(ctx, first); !errors.Is(err, driver.ErrGone) {
		t.Errorf("the first is told %v, want ErrGone", err)
	}
	must(t, b.Release(ctx, second))
}

// The same when the clocks of a majority jump.
func TestClocksThatJump(t *testing.T) {
	t.Parallel()
	nodes := five(t)
	clients := connect(t, nodes...)
	a, b := newDriver(t, nodes), newDriver(t, nodes)
	var last int64
	for range 20 {
		ctx := within(t, 60*time.Second)
		// No key may expire by itself: each of the five nodes has to have one.
		c := driverClaim(t.Name(), time.Hour, false)
		a, b = b, a
		eventually.Within(t, time.Minute, "taken", func() bool {
			g, err := a.Acquire(ctx, c)
			if err != nil {
				must(t, a.Abandon(ctx, c))
				c = driverClaim(t.Name(), time.Hour, false)
				return false
			}
			if g.Token <= last {
				t.Errorf("token %d after %d", g.Token, last)
			}
			last = g.Token
			return true
		})
		// Else what is still on its way to two nodes keeps the name taken after the jump.
		onAllFive(t, nodes)
		for _, k := range rand.Perm(5)[:3] {
			must(t, clients[k].PExpire(ctx, lockKey(t.Name()), time.Millisecond).Err())
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// A client whose clock is ahead takes the time for its tokens from the nodes that have answered it, be they a minority.
func TestTokensAreInTheNodesTime(t *testing.T) {
	t.Parallel()
	nodes := five(t)
	b, ctx := clockAhead(t, nodes, time.Hour), within(t, time.Minute)
	c := b.newClaim(driverClaim(t.Name(), 30*time.Second, false))
	for range 2 {
		votesOf(t, b, c, 0, 1)
	}
	for i, client := range connect(t, nodes[:2]...) {
		now, err := client.Time(ctx).Result()
		must(t, err)
		if ahead := time.UnixMicro(c.places[i].said.Token).Sub(now); ahead > time.Minute {
			t.Errorf("node %d: the token is %v ahead of its time", i, ahead)
		}
	}
	must(t, b.Abandon(ctx, c.Claim))
}

// TestTokensUnderFaults lets many take a few locks while keys are deleted, expire and
// whole nodes restart without their data, and then looks at the tokens: none is given
// twice, and whoever began to ask after another had succeeded has a greater one.
func TestTokensUnderFaults(t *testing.T) {
	set := servers.NewRedisSet(t, 5, servers.RedisOptions{})
	nodes := addrs(set)
	const names, workers = 3, 8
	const length, atLeast = 6 * time.Second, 200
	type success struct {
		began, got time.Time
		token      int64
	}
	var mu sync.Mutex
	var all [names][]success
	var overlaps atomic.Int64
	var holders [names]atomic.Int64
	stop, latest := time.Now().Add(length), time.Now().Add(50*length)
	over := func() bool { // not before a busy machine has done enough, too
		mu.Lock()
		defer mu.Unlock()
		done := 0
		for _, list := range all {
			done += len(list)
		}
		return time.Now().After(latest) || time.Now().After(stop) && done >= atLeast
	}
	var wg sync.WaitGroup
	for w := range workers {
		l := open(t, nodes, locker.WithTTL(time.Second))
		wg.Go(func() {
			for !over() {
				k := rand.N(names)
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rand.N(1000))*time.Millisecond)
				began := time.Now()
				lock, err := l.Acquire(ctx, fmt.Sprint(t.Name(), k))
				got := time.Now()
				cancel()
				if err != nil {
					continue
				}
				if holders[k].Add(1) > 1 {
					overlaps.Add(1)
				}
				mu.Lock()
				all[k] = append(all[k], success{began, got, lock.Token()})
				mu.Unlock()
				if w%2 == 0 {
					time.Sleep(time.Duration(rand.N(3000)) * time.Microsecond)
				}
				holders[k].Add(-1)
				_ = lock.Release(context.Background())
			}
		})
	}
	wg.Go(func() { // keys go
		clients := make([]*goredis.Client, len(nodes))
		for i, addr := range nodes {
			clients[i] = goredis.NewClient(options(addr))
			defer clients[i].Close()
		}
		for !over() {
			key := lockKey(fmt.Sprint(t.Name(), rand.N(names)))
			for _, i := range rand.Perm(5)[:1+rand.N(5)] {
				ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
				if rand.N(2) == 0 {
					clients[i].Del(ctx, key)
				} else {
					clients[i].PExpire(ctx, key, time.Millisecond)
				}
				cancel()
			}
			time.Sleep(time.Duration(rand.N(5)) * time.Millisecond)
		}
	})
	wg.Go(func() { // nodes go
		for !over() {
			r := set[rand.N(5)]
			if err := r.Kill(); err != nil {
				t.Error(err)
				return
			}
			time.Sleep(1100 * time.Millisecond) // see docs/design/redlock.md, "Tokens"
			if err := r.RestartEmpty(context.Background()); err != nil {
				t.Error(err)
				return
			}
		}
	})
	wg.Wait()
	total := 0
	for k, list := range all {
		total += len(list)
		for i, a := range list {
			for _, b := range list[i+1:] {
				switch {
				case a.token == b.token:
					t.Errorf("name %d: token %d given twice", k, a.token)
				case a.got.Before(b.began) && a.token > b.token, b.got.Before(a.began) && b.token > a.token:
					t.Errorf("name %d: tokens %d and %d in the wrong order", k, a.token, b.token)
				}
			}
		}
	}
	t.Logf("%d acquisitions, %d of them while somebody else held", total, overlaps.Load())
	if total < atLeast {
		t.Errorf("only %d acquisitions", total)
	}
	if overlaps.Load() == 0 {
		t.Log("nobody ever overlapped: the faults were too weak to show what tokens are for")
	}
}

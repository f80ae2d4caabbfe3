package redlock

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/servers"
)

// Three thousand names of the greatest length are held by one Locker: none is lost, if the machine can acquire so many in their
// TTL, and the deletion of one on all nodes is told soon.
func TestManyLongNamesHeld(t *testing.T) {
	const n = 3000
	nodes := addrs(servers.NewRedisSet(t, 3, servers.RedisOptions{}))
	pace := locktest.Pace(t, open(t, nodes), n)
	ttl := 30*time.Second + pace/4 // renewals follow one another more slowly on a slow machine
	l := open(t, nodes, locker.WithTTL(ttl))
	ctx := within(t, 5*time.Minute+ttl)
	held := make([]*locker.Lock, n)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := w; i < n; i += 8 {
				var err error
				if held[i], err = l.Acquire(ctx, fmt.Sprintf("%01024d", i)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	eventually.Within(t, time.Minute+ttl, "each lock is renewed", locktest.Renewal(t, held...))
	gone := held[n/2]
	must(t, destroy(ctx, connect(t, nodes...), gone.Name()))
	locktest.Lost(t, gone, 10*time.Second+pace/4) // a look at all of them takes a part of what acquiring them does
	for _, lock := range held {
		if lock != gone && lock.Context().Err() != nil {
			t.Fatalf("%s: %v", lock.Name()[1020:], context.Cause(lock.Context()))
		}
	}
}

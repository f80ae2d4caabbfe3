package redlock

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/servers"
)

// Who could not stand in any queue yet asks all nodes again once it can: one node would
// know as little of the others as before.
func TestWaiterAsksAllOnceItListens(t *testing.T) {
	t.Parallel()
	nodes := five(t)
	clients := connect(t, nodes...)
	ctx := within(t, 60*time.Second)
	b := newDriver(t, nodes)
	first, listen := make(chan struct{}), make(chan struct{})
	go b.bell.start.Do(func() {
		close(first)
		<-listen
		b.bell.subscribe()
	})
	<-first
	// Somebody has the lock, and gives it up on all nodes but one before b listens.
	other := foreign(t, b, t.Name())
	for _, c := range clients {
		must(t, c.Set(ctx, lockKey(t.Name()), other, 20*time.Second).Err())
	}
	dc := newDriverClaim(t.Name(), 20*time.Second, true)
	got := await(t, ctx, b, dc)
	eventually.Within(t, 20*time.Second, "it has asked", func() bool { return b.tokens.guess() != 0 })
	for _, c := range clients[1:] {
		must(t, c.Del(ctx, lockKey(t.Name())).Err())
	}
	begin := time.Now()
	close(listen)
	<-got
	if took := time.Since(begin); took > 1500*time.Millisecond { // it would look at another node after more than that
		t.Errorf("it took %v", took)
	}
	must(t, b.Release(ctx, dc))
	must(t, clients[0].Del(ctx, lockKey(t.Name())).Err())
}

// Whatever single nodes say, a waiter asks all of them now and then.
func TestWaiterAsksAllNowAndThen(t *testing.T) {
	t.Parallel()
	nodes := five(t)
	ctx := within(t, 60*time.Second)
	b := newDriver(t, nodes)
	other := foreign(t, b, t.Name())
	clients := connect(t, nodes...)
	for _, c := range clients {
		must(t, c.Set(ctx, lockKey(t.Name()), other, 20*time.Second).Err())
	}
	subscribed(t, ctx, b)
	dc := newDriverClaim(t.Name(), 20*time.Second, true)
	w := waiter{b: b, c: b.newClaim(dc, b.tokens.stamp())}
	for range 2 {
		_, err := w.bid(ctx)
		must(t, err)
		n := 0
		for ; !w.look(ctx); n++ {
			if in := time.Until(w.due); in > longest {
				t.Errorf("looks again in %v", in)
			}
		}
		if n > looks {
			t.Errorf("asked one node %d times in a row", n)
		}
	}
	must(t, b.Abandon(ctx, dc))
	for _, c := range clients {
		must(t, c.Del(ctx, lockKey(t.Name())).Err())
	}
}

// Those who wait ask again at random times, or else they would split the votes again and
// again.
func TestDelaysAreRandom(t *testing.T) {
	const left = 300 * time.Millisecond
	taken := reply{holder: "9", left: left}
	for name, tc := range map[string]struct {
		replies     []reply
		splits      int
		least, most time.Duration
	}{
		"somebody has it":  {[]reply{taken, taken, taken, taken, taken}, 0, left, left + time.Millisecond + spread},
		"he has it longer": {[]reply{{holder: "9", left: time.Hour}, taken, {holder: "9"}}, 0, longest, longest},
		"votes split":      {[]reply{taken, taken, {holder: "8"}, {holder: "8"}, {yes: true}}, 0, 2500 * time.Microsecond, 5 * time.Millisecond},
		"split again":      {[]reply{taken, taken, {holder: "8"}, {holder: "8"}, {yes: true}}, 2, 10 * time.Millisecond, 20 * time.Millisecond},
		"too few answer":   {[]reply{taken, {err: errSlow}, {err: errSlow}, {err: errSlow}, taken}, 0, 25 * time.Millisecond, 50 * time.Millisecond},
		"nobody answers":   {[]reply{{err: errSlow}, {err: errSlow}, {err: errSlow}, {err: errSlow}, {err: errSlow}}, 0, 25 * time.Millisecond, 50 * time.Millisecond},
	} {
		seen := make(map[time.Duration]bool) // tenths of what is possible
		for range 1000 {
			w := waiter{b: &backend{quorum: 3}, c: &claim{head: "0", mail: make(chan struct{}, 1)}, splits: tc.splits}
			d := w.weigh(tc.replies, 0)
			if d < tc.least || d > tc.most {
				t.Fatalf("%s: %v, want %v to %v", name, d, tc.least, tc.most)
			}
			seen[10*(d-tc.least)/max(1, tc.most-tc.least)] = true
		}
		if len(seen) < 10 && tc.least != tc.most {
			t.Errorf("%s: of ten tenths between %v and %v only %d", name, tc.least, tc.most, len(seen))
		}
	}
}

// A waiter whose time ends while nodes have yet to answer says what they said before.
func TestReasonOutlivesTheNextBid(t *testing.T) {
	t.Parallel()
	nodes := addrs(servers.NewRedisSet(t, 5, servers.RedisOptions{}))
	ctx := within(t, 60*time.Second)
	for _, c := range connect(t, nodes...) {
		must(t, c.ConfigSet(ctx, "min-replicas-to-write", "5").Err())
	}
	list, fronts := proxies(t, nodes)
	b := newDriver(t, fronts, WithNodeTimeout(3*time.Second))
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	result := make(chan error, 1)
	go func() {
		_, err := b.Acquire(waiting, newDriverClaim(t.Name(), 20*time.Second, true))
		result <- err
	}()
	eventually.Is(t, "they have refused", func() bool {
		return !slices.ContainsFunc(b.nodes, func(n *node) bool { return !n.weak() })
	})
	for _, p := range list {
		p.FreezeUp()
	}
	eventually.Is(t, "they are asked again", func() bool {
		return !slices.ContainsFunc(b.nodes, func(n *node) bool { return !n.busy() })
	})
	cancel()
	if err := <-result; err == nil || !strings.Contains(err.Error(), "NOREPLICAS") {
		t.Errorf("got %v", err)
	}
	for _, p := range list {
		p.Heal()
	}
}

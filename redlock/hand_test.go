package redlock

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/servers"
)

// await begins to wait for the lock with c and says what came of it.
func await(t *testing.T, ctx context.Context, b *backend, c *driver.Claim) <-chan driver.Grant {
	t.Helper()
	got := make(chan driver.Grant, 1)
	go func() {
		grant, err := b.Acquire(ctx, c)
		if err != nil {
			t.Error(err)
		}
		got <- grant
	}()
	return got
}

// subscribed has b listen to all its nodes.
func subscribed(t *testing.T, ctx context.Context, b *backend) {
	t.Helper()
	b.bell.listen(ctx)
	eventually.Within(t, 20*time.Second, "all nodes are listened to", func() bool {
		b.bell.mu.Lock()
		defer b.bell.mu.Unlock()
		return b.bell.heard == allNodes(len(b.nodes))
	})
}

// Who waits costs a majority of the nodes one request each, and so does who releases: the
// hand-over itself costs none.
func TestRequestsOfHandOver(t *testing.T) {
	set := servers.NewRedisSet(t, 5, servers.RedisOptions{})
	ctx := within(t, 60*time.Second)
	a, b := lingering(t, addrs(set)), lingering(t, addrs(set))
	subscribed(t, ctx, b)
	warm(t, ctx, a)
	warm(t, ctx, b)
	handOver := func() int64 {
		before := requests(t, set)
		first, second := newDriverClaim(t.Name(), 20*time.Second, false), newDriverClaim(t.Name(), 20*time.Second, true)
		g1, err := a.Acquire(ctx, first)
		must(t, err)
		got := await(t, ctx, b, second)
		eventually.Within(t, 20*time.Second, "it waits at a majority", func() bool {
			n := int64(0)
			for _, r := range set {
				v, err := r.Do(ctx, "zcard", waitKey(t.Name())) // not counted among the requests
				must(t, err)
				n += v.(int64)
			}
			return n == 3
		})
		must(t, a.Release(ctx, first))
		if g2 := <-got; g2.Token <= g1.Token {
			t.Errorf("token %d after %d", g2.Token, g1.Token)
		}
		must(t, b.Release(ctx, second))
		return requests(t, set) - before
	}
	var counts []int64
	for range 5 { // on a slow machine messages come so late that it asks once more
		n := handOver()
		if counts = append(counts, n); n == 2*6 {
			return
		}
	}
	t.Errorf("%v requests for two locks taken and released, want %d", counts, 2*6)
}

// A lock that was handed over by a majority and is held for a while is on all nodes, so
// that it survives the death of any two.
func TestHandedLockReachesAllNodes(t *testing.T) {
	t.Parallel()
	nodes := five(t)
	ctx := within(t, 60*time.Second)
	a, b := newDriver(t, nodes), newDriver(t, nodes)
	subscribed(t, ctx, b)
	first, second := newDriverClaim(t.Name(), 20*time.Second, false), newDriverClaim(t.Name(), 20*time.Second, true)
	_, err := a.Acquire(ctx, first)
	must(t, err)
	got := await(t, ctx, b, second)
	clients := connect(t, nodes...)
	waits(t, clients, t.Name(), 1)
	must(t, a.Release(ctx, first))
	<-got
	value := second.State.(*claim).value
	eventually.Within(t, 10*time.Second, "all five have it", func() bool {
		n := 0
		for _, c := range clients {
			if c.Get(ctx, lockKey(t.Name())).Val() == value {
				n++
			}
		}
		return n == 5
	})
	must(t, b.Release(ctx, second))
	eventually.Within(t, 10*time.Second, "nothing is left", func() bool { return len(keysOf(t, nodes, t.Name())) == 0 })
}

// A message to a claim that is over passes on what came with it, on the node that sent it.
func TestHandedToNobody(t *testing.T) {
	t.Parallel()
	nodes := five(t)
	ctx := within(t, 60*time.Second)
	b := newDriver(t, nodes)
	client := connect(t, nodes[2])[0]
	gone := b.newClaim(newDriverClaim(t.Name(), 20*time.Second, true), b.tokens.stamp())
	must(t, client.Set(ctx, gone.lock, gone.value, 20*time.Second).Err())
	b.bell.rung(2, "? "+gone.value[:fixedLen]+" "+gone.lock)
	eventually.Within(t, 10*time.Second, "it is free", func() bool { return client.Exists(ctx, gone.lock).Val() == 0 })
}

// What nodes say when they hand over, and what a waiter makes of it.
func TestHand(t *testing.T) { synctest.Test(t, testHand) }

func testHand(t *testing.T) {
	const quorum = 3
	roused := func(c *claim) bool {
		select {
		case <-c.mail:
			return true
		default:
			return false
		}
	}
	for name, tc := range map[string]struct {
		ours, yielded nodeSet
		tokens        []int64 // of nodes 0, 1, ...
		roused        bool
		handed        int
		written       int // with the greatest token
	}{
		"a majority":             {tokens: []int64{7, 7, 7}, roused: true, handed: 3, written: 3},
		"a minority":             {tokens: []int64{7, 7}, handed: 2, written: 2},
		"one did not write":      {tokens: []int64{7, 0, 7}, roused: true, handed: 3, written: 2},
		"by two who gave it up":  {tokens: []int64{7, 8, 8}, roused: true, handed: 3, written: 2},
		"and what we had":        {ours: 1 << 4, tokens: []int64{7, 7}, roused: true, handed: 2, written: 2},
		"what was given back":    {yielded: 1, tokens: []int64{7}, roused: true},
		"of which one was ours":  {yielded: 1, tokens: []int64{7, 7, 7}, roused: true, handed: 2, written: 2},
		"without any token":      {tokens: []int64{0, 0, 0}, roused: true, handed: 3, written: 3},
		"more than is necessary": {tokens: []int64{7, 7, 7, 7, 7}, roused: true, handed: 5, written: 5},
	} {
		c := &claim{mail: make(chan struct{}, 1), ours: tc.ours, yielded: tc.yielded}
		for i, token := range tc.tokens {
			c.hand(i, token, quorum)
		}
		c.mu.Lock()
		if c.handed.len() != tc.handed || c.written.len() != tc.written {
			t.Errorf("%s: %d handed over, %d wrote the token", name, c.handed.len(), c.written.len())
		}
		if got := roused(c); got != tc.roused {
			t.Errorf("%s: roused %v", name, got)
		}
		c.waitNoLonger()
		c.mu.Unlock()
	}

	// A vote that was told of, counted by a bid as well, and given back, is gone.
	c := &claim{mail: make(chan struct{}, 1)}
	for i := range 3 {
		c.hand(i, 7, quorum)
	}
	c.giveBack(1)
	if c.handed.has(0) || c.written.has(0) || c.handed.len() != 2 {
		t.Errorf("after the first was given back: handed %b, written %b", c.handed, c.written)
	}

	c = &claim{mail: make(chan struct{}, 1)}
	c.hand(0, 7, quorum)
	<-c.mail // when the others have had their time
	c.mu.Lock()
	if !c.look {
		t.Error("is not told to look")
	}
	c.mu.Unlock()
	if had := c.beginAnew(); had != 1 || c.handed|c.written != 0 || c.look {
		t.Errorf("had %b, left %+v", had, fmt.Sprint(c.handed, c.written, c.look))
	}
}

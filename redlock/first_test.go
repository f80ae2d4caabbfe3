package redlock

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/servers"
)

// lingering is a driver that asks the nodes after a majority only when it has to.
func lingering(t testing.TB, nodes []string, opts ...locker.Option) *backend {
	t.Helper()
	b := newDriver(t, nodes, opts...)
	for _, n := range b.nodes {
		n.linger = time.Minute
	}
	return b
}

func cycle(ctx context.Context, b *backend, name string) error {
	dc := newDriverClaim(name, 10*time.Second, false)
	if _, err := b.Acquire(ctx, dc); err != nil {
		return err
	}
	return b.Release(ctx, dc)
}

// A lock that is released before the others are asked costs a majority of the nodes
// two requests each, and one that is held longer is on all of them.
func TestRequestsAlone(t *testing.T) {
	set := servers.NewRedisSet(t, 5, servers.RedisOptions{})
	nodes := addrs(set)
	b := lingering(t, nodes)
	ctx := within(t, 30*time.Second)
	must(t, cycle(ctx, b, t.Name()))
	requests := func() int64 {
		sum, err := servers.SumRequests(ctx, set)
		must(t, err)
		return sum
	}
	before := requests()
	for range 50 {
		must(t, cycle(ctx, b, t.Name()))
	}
	if n := requests() - before; n != 50*6 {
		t.Errorf("%d requests for 50 locks taken and released, want %d", n, 50*6)
	}
	normal := newDriver(t, nodes)
	dc := newDriverClaim(t.Name(), 10*time.Second, false)
	_, err := normal.Acquire(ctx, dc)
	must(t, err)
	eventually.Within(t, 5*time.Second, "all have it", func() bool { return len(keysOf(t, nodes, t.Name())) == 5 })
	must(t, normal.Release(ctx, dc))
}

// When one of the first does not say yes the others are asked at once.
func TestOthersAreAskedWhenTheFirstWillNotDo(t *testing.T) {
	set := servers.NewRedisSet(t, 5, servers.RedisOptions{})
	nodes := addrs(set)
	ctx := within(t, 30*time.Second)
	clients := connect(t, nodes...)
	b := lingering(t, nodes)
	first := bucketOf(t.Name()) % 5

	must(t, clients[first].Set(ctx, lockKey(t.Name()), foreign(t, b, t.Name()), 20*time.Second).Err())
	must(t, cycle(ctx, b, t.Name()))
	must(t, clients[first].Del(ctx, lockKey(t.Name())).Err())

	must(t, set[first].Kill())
	must(t, cycle(ctx, b, t.Name()))
}

// A lock that its process will come back for is kept from others, and not for long.
func TestKeptLockIsKeptFromOthers(t *testing.T) {
	nodes := five(t)
	ctx := within(t, 30*time.Second)
	b, waiting, other := newDriver(t, nodes), newDriver(t, nodes), newDriver(t, nodes)
	dc := newDriverClaim(t.Name(), 10*time.Second, false)
	_, err := b.Acquire(ctx, dc)
	must(t, err)
	got := make(chan error, 1)
	heir := newDriverClaim(t.Name(), 10*time.Second, true)
	go func() {
		_, err := waiting.Acquire(ctx, heir)
		got <- err
	}()
	clients := connect(t, nodes...)
	for _, c := range clients {
		eventually.Within(t, 10*time.Second, "it waits", func() bool { return len(members(t, c, t.Name())) == 1 })
	}
	c := dc.State.(*claim)
	keep := &pass{b: b, c: c, heirs: b.newHeirs(c, len(nodes))}
	keep.giving = b.newGiving(c, keep.heirs, false, "keep")
	kept := make(chan int, len(nodes))
	keep.submit(allNodes(len(nodes)), time.Time{}, func(i int) { kept <- i })
	for range nodes {
		<-kept
	}
	if _, err := other.Acquire(ctx, newDriverClaim(t.Name(), 10*time.Second, false)); !errors.Is(err, driver.ErrTaken) {
		// 100 ms later it would be free: then this machine was too slow to tell.
		t.Logf("somebody else: %v", err)
		if clients[0].PTTL(ctx, lockKey(t.Name())).Val() > 0 && err != nil {
			t.Errorf("somebody else: got %v, want ErrTaken", err)
		}
	}
	again := newDriverClaim(t.Name(), 10*time.Second, false)
	_, err = b.Acquire(ctx, again)
	must(t, err)
	must(t, b.Release(ctx, again))
	must(t, <-got)
	must(t, waiting.Release(ctx, heir))
}

package redlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/crowd"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/servers"
)

// withdrawn is a claim that has been abandoned while requests of it may have been on their
// way to all nodes.
func withdrawn(t testing.TB, ctx context.Context, b *backend, name string) *claim {
	t.Helper()
	dc := newDriverClaim(name, 20*time.Second, false)
	c := b.newClaim(dc, b.tokens.stamp())
	for i := range b.nodes {
		c.asking(i)
		c.asked(i, reply{err: errSlow, sent: true}, false)
	}
	must(t, b.Abandon(ctx, dc))
	return c
}

// arrive has the plain bid of a claim carried out.
func arrive(t testing.TB, ctx context.Context, clients []goredis.UniversalClient, c *claim) {
	t.Helper()
	for _, n := range clients {
		if answer, err := n.Do(ctx, c.plainBid()...).Text(); err != nil || answer != "OK" {
			t.Fatalf("got %q %v", answer, err)
		}
	}
}

// soon fails the test unless l gets the lock at once, whether it waits or not.
func soon(t testing.TB, l locker.Locker, name string, wait bool) {
	t.Helper()
	begin := time.Now()
	acquire := l.TryAcquire
	if wait {
		acquire = l.Acquire
	}
	lock, err := acquire(within(t, 30*time.Second), name)
	must(t, err)
	if took := time.Since(begin); took > 3*time.Second {
		t.Errorf("it took %v", took)
	}
	must(t, lock.Release(context.Background()))
}

// The plain bid of a claim that was given up may come after all, and is carried out. What
// it leaves blocks nobody.
func TestLatePlainBidBlocksNobody(t *testing.T) {
	t.Parallel()
	nodes := five(t)
	clients := connect(t, nodes...)
	ctx := within(t, 60*time.Second)
	dead := newDriver(t, nodes, WithoutFencing())
	dead.seekFirst = forget
	for fenced, opts := range map[bool][]locker.Option{true: nil, false: {WithoutFencing()}} {
		for _, wait := range []bool{false, true} {
			name := fmt.Sprint(t.Name(), fenced, wait, rand.Int())
			for from := range len(nodes) - 2 {
				late := withdrawn(t, ctx, dead, fmt.Sprint(name, from))
				arrive(t, ctx, clients[from:from+3], late)
				soon(t, open(t, nodes, opts...), late.Name, wait)
			}
		}
	}
}

// Nor does it stay until its TTL: it is looked for.
func TestLatePlainBidIsFound(t *testing.T) {
	t.Parallel()
	nodes := five(t)
	ctx := within(t, 60*time.Second)
	b := newDriver(t, nodes, WithoutFencing())
	late := withdrawn(t, ctx, b, t.Name())
	arrive(t, ctx, connect(t, nodes...)[1:4], late)
	eventually.Within(t, 15*time.Second, "nothing is left", func() bool { return len(keysOf(t, nodes, t.Name())) == 0 })
}

// Only the mark of the one that has the lock makes it free.
func TestMarkOfAnotherFreesNothing(t *testing.T) {
	t.Parallel()
	nodes := five(t)
	ctx := within(t, 30*time.Second)
	b := newDriver(t, nodes, WithoutFencing())
	withdrawn(t, ctx, b, t.Name())
	l := open(t, nodes)
	lock, err := l.Acquire(ctx, t.Name())
	must(t, err)
	for _, opts := range [][]locker.Option{nil, {WithoutFencing()}} {
		if _, err := open(t, nodes, opts...).TryAcquire(ctx, t.Name()); !errors.Is(err, locker.ErrNotAcquired) {
			t.Errorf("got %v, want ErrNotAcquired", err)
		}
	}
	must(t, lock.Release(ctx))
}

// The same with real requests: held up by the network while the client library gives
// them up, makes new connections, and what was asked over these has long been answered.
func TestRequestsOverLostConnectionsBlockNobody(t *testing.T) {
	t.Parallel()
	nodes := five(t)
	ctx := within(t, 60*time.Second)
	list, fronts := proxies(t, nodes)
	var bypass atomic.Bool
	var impatient []goredis.UniversalClient
	for i, front := range fronts {
		o := options(front)
		o.ReadTimeout = 200 * time.Millisecond
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if bypass.Load() {
				addr = nodes[i]
			}
			return new(net.Dialer).DialContext(ctx, network, addr)
		}
		c := goredis.NewClient(o)
		t.Cleanup(func() { _ = c.Close() })
		must(t, c.Ping(ctx).Err()) // is connected
		impatient = append(impatient, c)
	}
	b := newDriverOver(t, impatient, WithoutFencing())
	b.seekFirst = forget
	for _, p := range list {
		p.FreezeUp()
	}
	bypass.Store(true)
	dc := newDriverClaim(t.Name(), 20*time.Second, true)
	_, err := b.Acquire(ctx, dc)
	must(t, err)
	must(t, b.Release(ctx, dc))
	clients := connect(t, nodes...)
	ghosts := func() (n int) {
		for _, c := range clients {
			if c.Get(ctx, lockKey(t.Name())).Val() == dc.State.(*claim).value {
				n++
			}
		}
		return n
	}
	eventually.Is(t, "it is released", func() bool { return ghosts() == 0 })
	for _, p := range list {
		p.Heal()
	}
	eventually.Is(t, "the requests have come", func() bool { return ghosts() == 3 })
	soon(t, open(t, nodes, WithoutFencing()), t.Name(), false)
	eventually.Is(t, "nothing is left", func() bool { return len(keysOf(t, nodes, t.Name())) == 0 })
}

// A lock that is taken costs a plain bid the first time only, and after many that were
// free the next.
func TestPlainBidsWhereItIsFree(t *testing.T) {
	set := servers.NewRedisSet(t, 5, servers.RedisOptions{})
	nodes := addrs(set)
	ctx := within(t, 30*time.Second)
	holder, b := lingering(t, nodes), lingering(t, nodes, WithoutFencing())
	warm(t, ctx, holder)
	warm(t, ctx, b)
	dc := newDriverClaim(t.Name(), 20*time.Second, false)
	_, err := holder.Acquire(ctx, dc)
	must(t, err)
	for i, want := range []int64{6, 3, 3} {
		before := requests(t, set)
		if err := cycle(ctx, b, t.Name()); err == nil {
			t.Fatal("got a lock that is held")
		}
		if n := requests(t, set) - before; n != want {
			t.Errorf("try %d cost %d requests, want %d", i, n, want)
		}
	}
	must(t, holder.Release(ctx, dc))
	for i := range crowd.Lasts {
		if b.expectsFree() {
			t.Fatalf("after %d that were free the next is expected to be", i)
		}
		must(t, cycle(ctx, b, t.Name()))
	}
	if !b.expectsFree() {
		t.Error("nothing is expected to be free any more")
	}
	must(t, set[2].Kill())
	for i := range 5 { // names with which each node is among the first
		name := t.Name()
		for bucketOf(name)%5 != i {
			name += "+"
		}
		must(t, cycle(ctx, b, name))
	}
	if b.expectsFree() {
		t.Error("with a dead node a lock is asked for plainly")
	}
}

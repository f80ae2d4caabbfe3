package redlock

import (
	"context"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
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

// warm has b connect, teach its scripts and learn the time, and guess tokens so high that a
// slow machine does not need a second round for one.
func warm(t testing.TB, ctx context.Context, b *backend) {
	t.Helper()
	must(t, cycle(ctx, b, t.Name()))
	b.tokens.mu.Lock()
	b.tokens.lead = tooFar / 2
	b.tokens.mu.Unlock()
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
func TestRequestsAlone(t *testing.T) { eitherWay(t, requestsAlone) }

func requestsAlone(t *testing.T, opts ...locker.Option) {
	set := servers.NewRedisSet(t, 5, servers.RedisOptions{})
	nodes := addrs(set)
	b := lingering(t, nodes, opts...)
	ctx := within(t, 30*time.Second)
	warm(t, ctx, b)
	before := requests(t, set)
	for range 50 {
		must(t, cycle(ctx, b, t.Name()))
	}
	if n := requests(t, set) - before; n != 50*6 {
		t.Errorf("%d requests for 50 locks taken and released, want %d", n, 50*6)
	}
	normal := newDriver(t, nodes, opts...)
	dc := newDriverClaim(t.Name(), 10*time.Second, false)
	_, err := normal.Acquire(ctx, dc)
	must(t, err)
	eventually.Within(t, 5*time.Second, "all have it", func() bool { return len(keysOf(t, nodes, t.Name())) == 5 })
	must(t, normal.Release(ctx, dc))
}

// When one of the first does not say yes the others are asked at once.
func TestOthersAreAskedWhenTheFirstWillNotDo(t *testing.T) {
	t.Parallel()
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

// What lingers at one node goes out when its own time has come, whatever lingers at another.
func TestNodesLingerEachForItself(t *testing.T) {
	t.Parallel()
	b := newDriver(t, addrs(servers.NewRedisSet(t, 3, servers.RedisOptions{})))
	b.nodes[0].linger = time.Minute
	b.nodes[1].linger = 10 * time.Millisecond
	b.nodes[2].linger = 30 * time.Millisecond
	ping := make([]*asked, 3)
	for i, n := range b.nodes {
		ping[i] = &asked{args: []any{"ping"}, done: make(chan error, 1)}
		n.submitLater(&request{job: ping[i], i: i})
	}
	for _, p := range ping[1:] {
		select {
		case err := <-p.done:
			must(t, err)
		case <-time.After(10 * time.Second):
			t.Fatal("what lingers for milliseconds was held up by what lingers for a minute")
		}
	}
	b.nodes[0].submit(&request{job: &asked{args: []any{"ping"}, done: make(chan error, 1)}})
	must(t, <-ping[0].done)
}

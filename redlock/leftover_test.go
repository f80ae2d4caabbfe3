package redlock

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker/internal/eventually"
)

func waitKey(name string) string { return strings.Replace(lockKey(name), ":lock:", ":wait:", 1) }

// foreign is a value such as another process's claim has.
func foreign(t testing.TB, b *backend, name string) string {
	t.Helper()
	own := b.newClaim(newDriverClaim(name, 10*time.Second, true), b.tokens.stamp()).value
	return strings.Replace(own, b.channel, "0123456789abcdef", 1)
}

func members(t testing.TB, c goredis.UniversalClient, name string) []string {
	t.Helper()
	list, err := c.ZRange(within(t, 5*time.Second), waitKey(name), 0, -1).Result()
	must(t, err)
	return list
}

// waits waits until n claims stand in the queue of a majority of the nodes.
func waits(t testing.TB, nodes []goredis.UniversalClient, name string, n int64) {
	t.Helper()
	eventually.Within(t, 30*time.Second, "all wait", func() bool {
		full := 0
		for _, c := range nodes {
			if c.ZCard(within(t, 5*time.Second), waitKey(name)).Val() >= n {
				full++
			}
		}
		return full > len(nodes)/2
	})
}

// A node that lags gets the bid and the release of a claim in one batch, while another
// still has the lock there. The claim must not stay in that node's queue: the other's
// release would hand the lock to it, and nobody would know.
func TestReleaseTogetherWithBidLeavesQueue(t *testing.T) {
	t.Parallel()
	nodes := five(t)
	clients := connect(t, nodes...)
	list, fronts := proxies(t, nodes[4:])
	b := newDriver(t, append(append([]string(nil), nodes[:4]...), fronts[0]), WithNodeTimeout(10*time.Second))
	ctx := within(t, 20*time.Second)

	warm := newDriverClaim(t.Name()+"/warm", 10*time.Second, false)
	_, err := b.Acquire(ctx, warm)
	must(t, err)
	must(t, b.Release(ctx, warm))
	if !b.bell.listen(ctx) {
		t.Fatal("not listening")
	}
	must(t, clients[4].Set(ctx, lockKey(t.Name()), foreign(t, b, t.Name()), 10*time.Second).Err())
	eventually.Within(t, 5*time.Second, "nothing is under way", func() bool { return !b.nodes[4].busy() })

	list[0].FreezeUp()
	before := newDriverClaim(t.Name()+"/before", 10*time.Second, false) // keeps the node busy
	_, err = b.Acquire(ctx, before)
	must(t, err)
	eventually.Within(t, 5*time.Second, "the node is busy", func() bool { return b.nodes[4].busy() })
	dc := newDriverClaim(t.Name(), 10*time.Second, true)
	_, err = b.Acquire(ctx, dc)
	must(t, err)
	must(t, b.Release(ctx, dc))
	list[0].Heal()
	must(t, b.Release(ctx, before))
	eventually.Within(t, 5*time.Second, "nothing is under way", func() bool { return !b.nodes[4].busy() })
	if left := members(t, clients[4], t.Name()); len(left) != 0 {
		t.Errorf("in the queue after the release: %q", left)
	}
}

// A waiter that gives a stray vote to somebody who waits, and queues again, is in a
// queue where its bid did not put it. It has to leave that too.
func TestYieldedClaimLeavesQueue(t *testing.T) {
	t.Parallel()
	nodes := five(t)
	clients := connect(t, nodes...)
	b, heir := newDriver(t, nodes), newDriver(t, nodes)
	ctx := within(t, 20*time.Second)
	if !b.bell.listen(ctx) || !heir.bell.listen(ctx) {
		t.Fatal("not listening")
	}
	dc := newDriverClaim(t.Name(), 10*time.Second, true)
	c := b.newClaim(dc, b.tokens.stamp())
	if rep := b.glance(ctx, c, 3); !rep.yes {
		t.Fatalf("got %+v", rep)
	}
	waiting := heir.newClaim(newDriverClaim(t.Name(), 10*time.Second, true), heir.tokens.stamp())
	heir.join(waiting)
	if rep := heir.glance(ctx, waiting, 3); rep.holder != c.value {
		t.Fatalf("got %+v", rep)
	}
	b.yield(c, nodeSet(0).with(3))
	eventually.Within(t, 5*time.Second, "the other has it and we wait", func() bool {
		list := members(t, clients[3], t.Name())
		return len(list) == 1 && list[0] == c.value
	})
	must(t, b.Abandon(ctx, dc))
	if left := members(t, clients[3], t.Name()); len(left) != 0 {
		t.Errorf("in the queue after it was abandoned: %q", left)
	}
	must(t, heir.Abandon(ctx, waiting.Claim))
}

// A waiter that gives votes back goes on waiting. No node may remember it as withdrawn, even
// if an earlier request of it may still be on its way there, and nobody is listened to.
func TestYieldedClaimMayBidAgain(t *testing.T) {
	t.Parallel()
	b := newDriver(t, five(t))
	ctx := within(t, 20*time.Second)
	dc := newDriverClaim(t.Name(), 10*time.Second, true)
	c := b.newClaim(dc, b.tokens.stamp())
	for i := range b.nodes {
		c.asking(i)
		c.asked(i, reply{err: errSlow, sent: true}, false)
	}
	b.yield(c, allNodes(len(b.nodes)))
	_, _, err := b.bid(ctx, c, false, false)
	must(t, err)
	must(t, b.Release(ctx, dc))
}

// A node that the holder does not have must not go round among those who wait.
func TestStrayVoteStaysWhereItIs(t *testing.T) {
	t.Parallel()
	nodes := five(t)
	name := t.Name()
	for bucketOf(name)%len(nodes) != 0 { // the first node at which they look is one where they wait
		name += "+"
	}
	holder := open(t, nodes)
	held, err := holder.Acquire(within(t, 30*time.Second), name)
	must(t, err)
	var wg sync.WaitGroup
	for range 10 {
		l := open(t, nodes)
		wg.Go(func() {
			lock, err := l.Acquire(within(t, 60*time.Second), name)
			if err == nil {
				err = lock.Release(context.Background())
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	clients := connect(t, nodes...)
	ctx := within(t, 60*time.Second)
	eventually.Within(t, 30*time.Second, "all wait", func() bool { return len(members(t, clients[0], name)) == 10 })
	must(t, clients[0].Del(ctx, lockKey(name)).Err())
	eventually.Within(t, 30*time.Second, "somebody has found it", func() bool {
		return clients[0].Exists(ctx, lockKey(name)).Val() == 1
	})
	// One that gets its answers too late to see that there is a holder may pass it on.
	moved, last := 0, ""
	for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if now := clients[0].Get(ctx, lockKey(name)).Val(); now != last {
			moved, last = moved+1, now
		}
	}
	if moved > 5 {
		t.Errorf("%d of those who wait have had the vote in 300 ms", moved)
	}
	must(t, held.Release(context.Background()))
	wg.Wait()
}

// A waiter that has the votes of some nodes asks the others when the holder's time
// should be over: its own know nothing of that.
func TestWaiterWithVotesSeesTheEndOfTheHolder(t *testing.T) {
	t.Parallel()
	nodes := five(t)
	b := newDriver(t, nodes)
	ctx := within(t, 60*time.Second)
	const left = 2 * time.Second
	dead := foreign(t, b, t.Name())
	for _, c := range connect(t, nodes...)[2:] {
		must(t, c.Set(ctx, lockKey(t.Name()), dead, left).Err())
	}
	c := newDriverClaim(t.Name(), 30*time.Second, true)
	begun := time.Now()
	_, err := b.Acquire(ctx, c)
	must(t, err)
	if took := time.Since(begun); took > left+time.Second {
		t.Errorf("waited for %v, want %v and a second at most", took, left)
	}
	must(t, b.Release(ctx, c))
}

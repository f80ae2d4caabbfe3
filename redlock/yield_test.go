package redlock

import (
	"context"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/internal/redisnode"
)

// warmClaim returns a claim that waits, and its place at the first node, which has answered before and is ready to be asked to yield.
func warmClaim(t *testing.T, b *backend) (*claim, *place) {
	t.Helper()
	warm := driverClaim(t.Name()+"/warm", 10*time.Second, false)
	take(t, b, warm)
	must(t, b.Release(context.Background(), warm))
	<-b.working.None()
	c := b.newClaim(driverClaim(t.Name(), 10*time.Second, true))
	p := c.places[0]
	p.Join(p.at, func(redisnode.Answer) {})
	t.Cleanup(func() { p.Leave(p.at) })
	must(t, p.Ready(within(t, 10*time.Second), p.at))
	return c, p
}

// TestYieldAfterLostAnswer: an answer that was lost earlier does not keep a node from counting after a request to
// yield that it has answered.
func TestYieldAfterLostAnswer(t *testing.T) {
	list, fronts := proxies(t, five(t))
	b := newDriver(t, fronts)
	c, v := warmClaim(t, b)
	list[0].SwallowReply(isAcquire, 0)
	_ = b.askNode(c, v, redisnode.Try, 0)
	if v.at.LateUntil == 0 {
		t.Fatal("no answer was lost")
	}
	if err := b.askNode(c, v, redisnode.Yield, 0); err != nil {
		t.Errorf("the node does not count: %v", err)
	}
	must(t, b.Abandon(context.Background(), c.Claim))
}

// TestYieldAtSlowNode: a node counts as soon as it has answered a request to yield, also if that takes longer than the answers before.
func TestYieldAtSlowNode(t *testing.T) {
	list, fronts := proxies(t, five(t))
	b := newDriver(t, fronts)
	c, p := warmClaim(t, b)
	must(t, b.askNode(c, p, redisnode.Try, 0))
	list[0].Delay(0, 150*time.Millisecond)
	if err := b.askNode(c, p, redisnode.Yield, 0); err != nil {
		t.Errorf("the node does not count: %v", err)
	}
	must(t, b.Abandon(context.Background(), c.Claim))
}

// TestYieldRefusedAfterLostAnswer: a node is not asked as long as a request to yield may still have an effect, and so
// it does not count as one that refuses, either: the waiter would look only when that says that the name is free.
func TestYieldRefusedAfterLostAnswer(t *testing.T) {
	nodes := five(t)
	list, fronts := proxies(t, nodes)
	b, ctx := newDriver(t, fronts), within(t, 30*time.Second)
	other := connect(t, nodes[0])[0]
	must(t, other.Set(ctx, lockKey(t.Name()), "somebody else's", time.Minute).Err())
	c := b.newClaim(driverClaim(t.Name(), 10*time.Second, true))
	p := c.places[0]
	p.Join(p.at, func(redisnode.Answer) {})
	defer p.Leave(p.at)
	must(t, p.Ready(ctx, p.at))
	list[0].SwallowReply(isAcquire, 0)
	if err := b.askNode(c, p, redisnode.Yield, 0); settled(err) || settled(b.votes(c)[0]) {
		t.Errorf("it counts: %v, %v", err, b.votes(c)[0])
	}
	must(t, b.Abandon(ctx, c.Claim))
	must(t, other.Del(ctx, lockKey(t.Name())).Err())
	nothingLeft(t, nodes)
}

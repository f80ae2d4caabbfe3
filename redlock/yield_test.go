package redlock

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/redisnode"
)

// warmClaim returns a claim that waits, and its place at the first node, which has answered before and is ready to be asked to yield.
func warmClaim(t *testing.T, b *backend) (*claim, *place) {
	t.Helper()
	warm := driverClaim(t.Name()+"/warm", 10*time.Minute, false)
	take(t, b, warm)
	must(t, b.Release(context.Background(), warm))
	<-b.working.None()
	c := b.newClaim(driverClaim(t.Name(), 10*time.Minute, true))
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
	c, p := warmClaim(t, b)
	list[0].SwallowReply(isAcquire, 0)
	if err := b.askNode(c, p, redisnode.Yield, 0); settled(err) || settled(b.votes(c)[0]) {
		t.Errorf("it counts: %v, %v", err, b.votes(c)[0])
	}
	must(t, b.Abandon(ctx, c.Claim))
	must(t, other.Del(ctx, lockKey(t.Name())).Err())
	nothingLeft(t, nodes)
}

// TestNewsDuringYield: what a node says while a request to yield may still have an effect does not count, not afterwards
// either, and it is not asked meanwhile, also if an earlier request that was lost may have an effect for longer.
func TestNewsDuringYield(t *testing.T) {
	list, fronts := proxies(t, five(t))
	b := newDriver(t, fronts)
	c, p := warmClaim(t, b)
	p.at.LateUntil = p.Time() + time.Hour.Microseconds()
	list[0].SwallowReply(isAcquire, time.Second)
	err := b.askNode(c, p, redisnode.Yield, 0)
	latest := p.at.Lost
	if latest == 0 {
		t.Fatal("no answer was lost")
	}
	if late := p.said.Now > latest; (err == nil) != late {
		t.Errorf("answered when it was to have no effect any more: %v; it counts as %v", late, err)
	}
	for now, counts := range map[int64]bool{latest: false, latest + 1: true} {
		p.said = redisnode.Answer{}
		b.hear(c, p, redisnode.Answer{Granted: true, Sent: b.clock.Now(), Now: now})
		if vote := b.votes(c)[0]; (vote == nil) != counts {
			t.Errorf("what it says %d µs after the last moment counts as %v", now-latest, vote)
		}
	}
	p.takenUntil = p.Time() + time.Minute.Microseconds()
	if err := b.askNode(c, p, redisnode.Queue, 0); err != errUnheard {
		t.Errorf("it is asked meanwhile: %v", err)
	}
	p.at.LateUntil = latest // keeps what stays of the claim short
	must(t, b.Abandon(context.Background(), c.Claim))
}

// TestNodeThatHasNeverAnsweredIsNotAskedToYield: if the answer were lost it would not count for as long as the time there is
// overestimated.
func TestNodeThatHasNeverAnsweredIsNotAskedToYield(t *testing.T) {
	list, fronts := proxies(t, five(t))
	b := clockAhead(t, fronts, time.Minute)
	c := b.newClaim(driverClaim(t.Name(), 10*time.Minute, true))
	p := c.places[0]
	p.Join(p.at, func(redisnode.Answer) {})
	defer p.Leave(p.at)
	must(t, p.Ready(within(t, 10*time.Second), p.at))
	list[0].SwallowReply(isAcquire, 0)
	if err := b.askNode(c, p, redisnode.Yield, 0); err != nil || p.at.LateUntil == 0 {
		t.Errorf("lost until %d: %v", p.at.LateUntil, err)
	}
	must(t, b.Abandon(context.Background(), c.Claim))
}

// TestNewsBeforeRequestThatFailed: what a node has said before a request that may take the name away does not count when that
// fails, although it was not sent; nor does what a node has said before its answer to a lost request to yield was due.
func TestNewsBeforeRequestThatFailed(t *testing.T) {
	clients := connect(t, five(t)...)
	var away atomic.Bool
	clients[0].AddHook(fails(func(args []any) bool { return len(args) == 12 && away.Load() }))
	b := newDriverOver(t, clients)
	for what, row := range map[string]struct {
		how           redisnode.How
		evicted, lost bool
		counts        bool
	}{
		"removes its place":       {how: redisnode.Queue, evicted: true},
		"yields":                  {how: redisnode.Yield},
		"yields after a lost one": {how: redisnode.Yield, lost: true},
		"queues after a lost one": {how: redisnode.Queue, lost: true},
		"queues":                  {how: redisnode.Queue, counts: true},
	} {
		c, p := warmClaim(t, b)
		said := redisnode.Answer{Granted: true, Sent: b.clock.Now(), Now: b.time()}
		if row.evicted { // since it asked the node
			p.at.Touched, c.since, c.evicted = true, p.at.Since+1, time.Now()
		}
		if row.lost { // and cannot have an effect any more
			p.barred = said.Sent + 1
		}
		away.Store(true)
		if err := b.askNode(c, p, row.how, 0); err == nil || settled(err) {
			t.Fatalf("%s: it did not fail: %v", what, err)
		}
		away.Store(false)
		b.hear(c, p, said)
		if vote := b.votes(c)[0]; (vote == nil) != row.counts {
			t.Errorf("%s: what the node said before is taken for %v", what, vote)
		}
		must(t, b.Abandon(context.Background(), c.Claim))
	}
}

// TestGrantIsNews: an answer by which a node grants the name has a claim that waits look, as news of that have, since it may
// come when a majority has refused the name already; one that says so again does not.
func TestGrantIsNews(t *testing.T) {
	b := newDriver(t, five(t))
	c, p := warmClaim(t, b)
	for _, how := range []redisnode.How{redisnode.Try, redisnode.Queue} {
		for _, soon := range []bool{true, false} {
			c.next.begin()
			began := c.next.due
			must(t, b.askNode(c, p, how, 0))
			if c.next.how != redisnode.Queue || c.next.due.Before(began) != soon {
				t.Errorf("asked by %s it looks %v sooner, by %s", how, began.Sub(c.next.due), c.next.how)
			}
		}
		must(t, b.Abandon(context.Background(), c.Claim))
		c, p = warmClaim(t, b)
	}
	c.Wait = false
	c.next.begin()
	began := c.next.due
	must(t, b.askNode(c, p, redisnode.Try, 0))
	if c.next.due != began {
		t.Error("one that does not wait looks")
	}
	must(t, b.Abandon(context.Background(), c.Claim))
}

// TestOneEvictionIsToldLate: nodes tell a waiter of one eviction as long as a request may take, however long that is.
func TestOneEvictionIsToldLate(t *testing.T) {
	for bound, one := range map[time.Duration]bool{time.Second: false, time.Minute: true} {
		b := newDriver(t, five(t), WithNodeTimeout(bound))
		c := b.newClaim(driverClaim(t.Name(), 10*time.Minute, true))
		c.since, c.evicted = 1, time.Now().Add(-100*time.Second)
		if b.hear(c, c.places[0], redisnode.Answer{Evicted: true}); (c.since == 1) != one {
			t.Errorf("node timeout %v: its age is %d", bound, c.since)
		}
	}
}

// TestNoYieldOnceGranted: a request to yield that has not been sent when the claim is granted its name is not sent.
func TestNoYieldOnceGranted(t *testing.T) {
	b := newDriver(t, five(t), WithoutFencing())
	c, p := warmClaim(t, b)
	votesOf(t, b, c, 0, 1, 2)
	p.calls.Lock()
	sent := make(chan error, 1)
	go func() { sent <- b.askNode(c, p, redisnode.Yield, 0) }()
	if _, ok := b.grant(within(t, 30*time.Second), c); !ok {
		t.Fatal("not granted")
	}
	p.calls.Unlock()
	if err := <-sent; err != errUnheard {
		t.Errorf("it was sent: %v", err)
	}
	must(t, b.Release(within(t, 30*time.Second), c.Claim))
}

// TestPlaceThatWasTaken: a node that is asked to remove what it has of a claim whose place was taken counts only when it has
// answered, and what it tells of that is no further eviction.
func TestPlaceThatWasTaken(t *testing.T) {
	nodes := five(t)
	list, fronts := proxies(t, nodes)
	b, ctx := newDriver(t, fronts), within(t, 30*time.Second)
	c, p := warmClaim(t, b)
	told := make(chan time.Time, 10)
	p.Join(p.at, func(a redisnode.Answer) {
		b.hear(c, p, a)
		if a.Evicted {
			told <- time.Now()
		}
	})
	set := func(since int64, evicted time.Duration) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.since, c.evicted = since, time.Now().Add(-evicted)
	}
	other := connect(t, nodes[0])[0]
	must(t, other.Set(ctx, lockKey(t.Name()), "somebody else's", time.Minute).Err())
	set(1, 0)
	_ = b.askNode(c, p, redisnode.Queue, 0)
	set(2, 2*b.sameEviction())
	began := time.Now()
	_ = b.askNode(c, p, redisnode.Queue, 0)
	late := locktest.Receive(t, "the news of its own request", told, 20*time.Second).Sub(began) > b.sameEviction()
	c.mu.Lock()
	since := c.since
	c.mu.Unlock()
	if since != 2 && !late {
		t.Error("it goes to the end again")
	}

	must(t, other.Del(ctx, lockKey(t.Name())).Err())
	must(t, b.askNode(c, p, redisnode.Try, 0))
	set(3, 0)
	list[0].FreezeUp()
	asked := make(chan error, 1)
	go func() { asked <- b.askNode(c, p, redisnode.Queue, 0) }()
	eventually.Is(t, "the request is under way", func() bool { return list[0].Stats().HeldUp > 0 })
	if vote := b.votes(c)[0]; vote == nil {
		t.Error("the node counts")
	}
	list[0].Heal()
	<-asked

	set(4, 0)
	list[0].SwallowReply(isRelease, 0)
	if err := b.askNode(c, p, redisnode.Queue, 0); err == nil {
		t.Error("the node counts although a sending of the request had no answer")
	}
	must(t, b.Abandon(ctx, c.Claim))
}

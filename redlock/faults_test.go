package redlock

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/servers"
)

// redsync answers ErrFailed when the ctx has ended.
func TestEndOfContextIsTheError(t *testing.T) {
	t.Parallel()
	nodes := five(t)
	holder, l := open(t, nodes), open(t, nodes)
	_, err := holder.Acquire(within(t, time.Minute), t.Name())
	must(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if _, err := l.Acquire(ctx, t.Name()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want DeadlineExceeded in it", err)
	}
	ctx, cancel = context.WithCancel(context.Background())
	time.AfterFunc(100*time.Millisecond, cancel)
	if _, err := l.Acquire(ctx, t.Name()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want Canceled in it", err)
	}
}

// redsync undoes a failed try under the ctx that has ended, and so not at all.
func TestCancelledAcquireLeavesNothing(t *testing.T) { eitherWay(t, cancelledAcquireLeavesNothing) }

func cancelledAcquireLeavesNothing(t *testing.T, opts ...locker.Option) {
	t.Parallel()
	nodes := five(t)
	l := open(t, nodes, append(opts, locker.WithTTL(10*time.Minute))...) // longer than is waited for what is left
	for i := range 200 {
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(time.Duration(rand.N(1500))*time.Microsecond, cancel)
		lock, err := l.Acquire(ctx, t.Name())
		begun := time.Now()
		if err == nil {
			err = lock.Release(context.Background())
		}
		if err != nil && !errors.Is(err, context.Canceled) && !locktest.GaveUp(err, begun) {
			t.Fatalf("try %d: %v", i, err)
		}
		cancel()
	}
	keys(t, nodes, 0, time.Minute)
	lock, err := open(t, nodes, WithNodeTimeout(10*time.Second)).TryAcquire(within(t, time.Minute), t.Name())
	must(t, err)
	release(t, lock)
}

// redsync's extension can bring back a lock that was lost, and answers "taken" when
// nobody has it.
func TestRenewalBringsNothingBack(t *testing.T) {
	t.Parallel()
	nodes := five(t)
	b := newDriver(t, nodes)
	ctx := within(t, 2*time.Minute)
	c := driverClaim(t.Name(), 5*time.Minute, false)
	_, err := b.Acquire(ctx, c)
	must(t, err)
	clients := connect(t, nodes...)
	onAllFive(t, nodes)
	for i := range 2 {
		must(t, clients[i].Del(ctx, lockKey(c.Name)).Err())
	}
	if until, err := renewed(t, b, c); err != nil || until <= b.clock.Now() {
		t.Fatalf("with three of five: until %v, %v", until, err)
	}
	must(t, clients[2].Del(ctx, lockKey(c.Name)).Err())
	if _, err := renewed(t, b, c); !errors.Is(err, driver.ErrGone) {
		t.Fatalf("with two of five: got %v, want ErrGone", err)
	}
	for i, n := range []int64{0, 0, 0, 1, 1} {
		if got := clients[i].Exists(ctx, lockKey(c.Name)).Val(); got != n {
			t.Errorf("node %d has %d keys after the renewal, want %d", i, got, n)
		}
	}
	if err := b.Release(ctx, c); !errors.Is(err, driver.ErrGone) {
		t.Errorf("release: got %v, want ErrGone", err)
	}
}

// redsync's bound works through the ctx, which go-redis does not heed: with
// go-redis's defaults one node that hangs holds up every acquisition for seconds.
func TestNodeThatHangsHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	nodes := append([]string(nil), five(t)...)
	list, fronts := proxies(t, nodes[1:2])
	nodes[1] = fronts[0]
	l := open(t, nodes)
	cycle := func() {
		lock, err := l.Acquire(within(t, 20*time.Second), t.Name())
		must(t, err)
		release(t, lock)
	}
	cycle()
	list[0].Freeze()
	for range 100 {
		inTime := locktest.Limit(t, 2*time.Second) // go-redis would take three seconds, and three times that
		cycle()
		inTime("a cycle with one of five nodes hanging")
	}
	b := l.(interface{ Close(context.Context) error })
	begin := time.Now()
	must(t, b.Close(within(t, 20*time.Second)))
	t.Logf("closed in %v", time.Since(begin))
}

// A reply that is lost, at every node: the request may have been carried out.
func TestLostReplies(t *testing.T) { eitherWay(t, lostReplies) }

func lostReplies(t *testing.T, opts ...locker.Option) {
	t.Parallel()
	nodes := five(t)
	list, fronts := proxies(t, nodes)
	l := open(t, fronts, opts...)
	warm, err := l.Acquire(within(t, time.Minute), t.Name()+"/warm")
	must(t, err)
	release(t, warm)

	for range 4 { // where a connection breaks a request is repeated
		for _, p := range list {
			p.SwallowReply(isAcquire, 0)
		}
	}
	if lock, err := l.TryAcquire(within(t, time.Minute), t.Name()); err == nil {
		t.Errorf("got %v without a single answer", lock.Name())
	} else if errors.Is(err, locker.ErrNotAcquired) {
		t.Errorf("lost replies were taken for a no: %v", err)
	}
	nothingLeft(t, nodes)

	for _, p := range list {
		p.SwallowReply(isAcquire, 0)
	}
	lock, err := l.Acquire(within(t, time.Minute), t.Name())
	must(t, err)
	release(t, lock)
}

// A request that arrives after the claim has been given up has no effect, and
// neither does one that arrives after a release that no reply was heard of.
func TestLateRequestsHaveNoEffect(t *testing.T) { eitherWay(t, lateRequestsHaveNoEffect) }

func lateRequestsHaveNoEffect(t *testing.T, opts ...locker.Option) {
	t.Parallel()
	nodes := five(t)
	list, fronts := proxies(t, nodes)
	l := open(t, fronts, opts...)
	warm, err := l.Acquire(within(t, time.Minute), t.Name()+"/warm")
	must(t, err)
	release(t, warm)
	for _, p := range list {
		p.FreezeUp()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	if _, err := l.Acquire(ctx, t.Name()); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v, want DeadlineExceeded", err)
	}
	for _, p := range list {
		p.Heal()
	}
	lock, err := l.Acquire(within(t, time.Minute), t.Name())
	must(t, err)
	release(t, lock)
	nothingLeft(t, nodes)
}

// A message that nobody hears must not leave anybody waiting until the TTL: neither who subscribed nor who came to a
// subscription that stood.
func TestWaiterSurvivesLostSubscription(t *testing.T) {
	t.Parallel()
	nodes := addrs(servers.NewRedisSet(t, 5, servers.RedisOptions{}))
	a, b, clients := newDriver(t, nodes), newDriver(t, nodes), connect(t, nodes...)
	ctx := within(t, 2*time.Minute)
	kill := func() {
		for _, c := range clients {
			must(t, c.Do(ctx, "client", "kill", "type", "pubsub").Err())
		}
	}
	for _, interrupt := range []func(){kill, func() {}, kill} {
		held, waiting := driverClaim(t.Name(), time.Minute, false), driverClaim(t.Name(), time.Minute, true)
		take(t, a, held)
		w := begin(ctx, b, waiting)
		waits(t, clients, t.Name(), 1)
		places := b.newClaim(driverClaim(t.Name(), time.Minute, true)).places // which share the subscriptions
		eventually.Is(t, "it is told news", func() bool {
			return !slices.ContainsFunc(places, func(p *place) bool { return !p.Listening(p.at) })
		})
		interrupt()
		must(t, a.Release(ctx, held))
		w.Granted(t, 10*time.Second) // by itself it looks every 20 s
		must(t, b.Release(ctx, waiting))
	}
}

func TestNoQuorum(t *testing.T) {
	t.Parallel()
	set := servers.NewRedisSet(t, 5, servers.RedisOptions{})
	l := open(t, addrs(set))
	for _, i := range []int{0, 2, 4} {
		must(t, set[i].Kill())
	}
	var quorum *QuorumError
	eventually.Is(t, "the two others say yes", func() bool { // on a machine that is late they may not do so in time
		inTime := locktest.Limit(t, 5*time.Second)
		_, err := l.TryAcquire(within(t, 20*time.Second), t.Name())
		if !errors.As(err, &quorum) || errors.Is(err, locker.ErrNotAcquired) {
			t.Fatalf("got %v, want a QuorumError", err)
		}
		inTime("a try without a quorum")
		for _, i := range []int{0, 2, 4} {
			if !strings.Contains(err.Error(), set[i].Addr()) {
				t.Errorf("%v does not name %s", err, set[i].Addr())
			}
		}
		t.Logf("got %+v", quorum)
		return quorum.Nodes == 5 && quorum.Yes == 2 && quorum.No == 0 && len(quorum.Errs) == 3
	})
	// The wait, too, may be over before the nodes have refused.
	eventually.Is(t, "a wait to end with a QuorumError", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
		defer cancel()
		_, err := l.Acquire(ctx, t.Name())
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want DeadlineExceeded", err)
		}
		return errors.As(err, &quorum)
	})
	got := make(chan error, 1)
	go func() {
		lock, err := l.Acquire(within(t, time.Minute), t.Name())
		if err == nil {
			err = locktest.Freed(context.Background(), lock)
		}
		got <- err
	}()
	must(t, set[2].Restart(within(t, 30*time.Second)))
	must(t, <-got)
}

// A majority that has granted the name only when the TTL is over makes nobody a holder with what it
// said: it is asked once more, and counts anew.
func TestMajorityAfterTheTTL(t *testing.T) { eitherWay(t, majorityAfterTheTTL) }

func majorityAfterTheTTL(t *testing.T, opts ...locker.Option) {
	t.Parallel()
	nodes := five(t)
	list, fronts := proxies(t, nodes)
	b := newDriver(t, fronts, append(opts, WithNodeTimeout(20*time.Second))...)
	ctx := within(t, 60*time.Second)
	c := driverClaim(t.Name(), time.Minute, false)
	take(t, b, c)
	must(t, b.Release(ctx, c))
	nothingLeft(t, nodes)
	for _, p := range list {
		p.FreezeDown()
	}
	c = driverClaim(t.Name(), time.Second, false)
	w := begin(ctx, b, c)
	time.Sleep(c.TTL + 500*time.Millisecond)
	healed := b.clock.Now()
	for _, p := range list {
		p.Heal()
	}
	<-w.Done
	if w.Err == nil && w.Value.Until <= healed {
		t.Error("granted when it was over")
	}
	must(t, b.Abandon(ctx, c))
	nothingLeft(t, nodes)
}

package redlock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/redisnode"
)

// The token that is seen of a holder is its own, also where a node that the majority did not need has given it another.
func TestTokenOfTheMajorityIsShown(t *testing.T) {
	t.Parallel()
	nodes := five(t)
	b := newDriver(t, nodes)
	ctx := within(t, 10*time.Minute)
	c := driverClaim(t.Name(), 10*time.Minute, false)
	token := take(t, b, c).Token + 1_000_000 // more than any node has given by itself
	onAllFive(t, nodes)
	propose := func(p *place, proposed, want int64) {
		t.Helper()
		p.calls.Lock()
		defer p.calls.Unlock()
		p.at.Proposed = proposed
		if a, err := p.Acquire(ctx, p.at, redisnode.Try); err != nil || !a.Granted || a.Token != want {
			t.Fatalf("%s: %+v %v, want the token %d", p.name, a, err, want)
		}
	}
	places := stateOf(c).places
	for _, p := range places {
		propose(p, token, token)
	}
	for i, p := range places { // each then has more time left than the one before
		if i == 2 {
			propose(p, token+1000, token+1000)
		} else {
			propose(p, 0, token)
		}
		all, err := b.Look(ctx, t.Name())
		must(t, err)
		if len(all) != 1 || all[0].Token != token {
			t.Errorf("got %+v, want the token %d", all, token)
		}
	}
	must(t, b.Release(ctx, c))
}

// What is seen of a name: who holds it, who waits, in the order of their age; also with two nodes away.
func TestLook(t *testing.T) {
	t.Parallel()
	nodes := five(t)
	list, fronts := proxies(t, nodes)
	b := newDriver(t, fronts)
	ctx := within(t, 60*time.Second)
	if all, err := b.Look(ctx, t.Name()); err != nil || len(all) != 0 {
		t.Errorf("got %v %v", all, err)
	}
	c := sharedClaim(t.Name(), 10*time.Minute, false)
	g := take(t, b, c)
	onAllFive(t, nodes)
	w, r := driverClaim(t.Name(), 10*time.Minute, true), sharedClaim(t.Name(), 10*time.Minute, true)
	waitsW := begin(ctx, b, w)
	waits(t, connect(t, nodes...), t.Name(), 1)
	waitsR := begin(ctx, b, r)
	waits(t, connect(t, nodes...), t.Name(), 2)
	look := func() {
		t.Helper()
		all, err := b.Look(ctx, t.Name())
		must(t, err)
		if len(all) != 3 {
			t.Fatalf("got %+v", all)
		}
		if p := all[0]; p.ID != c.ID || !p.Held || p.Token != g.Token || p.Owner != "test" || p.Weight != 1 || p.Limit != driver.All ||
			p.Left <= 0 || p.Left > c.TTL || time.Since(p.Since).Abs() > time.Minute {
			t.Errorf("holder: %+v", p)
		}
		for i, want := range []*driver.Claim{w, r} {
			if p := all[i+1]; p.ID != want.ID || p.Held || p.Token != 0 || p.Weight != want.Weight {
				t.Errorf("waiter: %+v", p)
			}
		}
	}
	look()
	var names []string
	for name, err := range b.Names(ctx, t.Name()) {
		must(t, err)
		names = append(names, name)
	}
	if !slices.Equal(names, []string{t.Name()}) {
		t.Errorf("names %q", names)
	}
	must(t, b.Release(ctx, c))
	waitsW.Granted(t, 10*time.Second)
	must(t, b.Release(ctx, w))
	waitsR.Granted(t, 10*time.Second)
	must(t, b.Release(ctx, r))
	for _, p := range list[:3] {
		p.Refuse()
		p.Cut()
	}
	var quorum *QuorumError
	if _, err := b.Look(ctx, t.Name()); !errors.As(err, &quorum) {
		t.Errorf("with three nodes away: %v", err)
	}
}

// The names are looked for as long as the caller wants, and a node that takes its time for that is not known as silent for it.
func TestNamesHaveTheTimeOfTheCaller(t *testing.T) {
	t.Parallel()
	nodes := five(t)
	list, fronts := proxies(t, nodes)
	b, slow, ctx := newDriver(t, nodes), newDriver(t, fronts, WithNodeTimeout(10*time.Millisecond)), within(t, time.Minute)
	c := driverClaim(t.Name(), 10*time.Minute, false)
	take(t, b, c)
	onAllFive(t, nodes)
	for _, p := range list {
		p.Delay(100*time.Millisecond, 0)
	}
	found := 0
	for name, err := range slow.Names(ctx, t.Name()) {
		must(t, err)
		if name == t.Name() {
			found++
		}
	}
	if found != 1 || slow.silentNodes() > 0 {
		t.Errorf("found %d times, %d nodes are silent", found, slow.silentNodes())
	}
	must(t, b.Release(ctx, c))
}

// heldAndWanted has one claim hold the test's name on all five nodes and two wait for it: holder and second by b, first by a.
func heldAndWanted(ctx context.Context, t *testing.T, nodes []string, a, b *backend) (holder *driver.Claim, first, second *locktest.Acquisition[driver.Grant]) {
	t.Helper()
	clients := connect(t, nodes...)
	holder = driverClaim(t.Name(), 10*time.Minute, false)
	take(t, b, holder)
	onAllFive(t, nodes)
	first = begin(ctx, a, driverClaim(t.Name(), 10*time.Minute, true))
	waits(t, clients, t.Name(), 1)
	second = begin(ctx, b, driverClaim(t.Name(), 10*time.Minute, true))
	waits(t, clients, t.Name(), 2)
	return holder, first, second
}

// Evict takes the name from a holder, who is told, and the place from a waiter, who queues at the end.
func TestEvict(t *testing.T) {
	t.Parallel()
	nodes := five(t)
	b, ctx := newDriver(t, nodes), within(t, 60*time.Second)
	holder, first, second := heldAndWanted(ctx, t, nodes, b, b)
	must(t, b.Evict(ctx, t.Name(), first.Claim.ID))
	eventually.Is(t, "it waits at the end", func() bool {
		all, err := b.Look(ctx, t.Name())
		return err == nil && len(all) == 3 && all[1].ID == second.Claim.ID && all[2].ID == first.Claim.ID
	})
	must(t, b.Evict(ctx, t.Name(), holder.ID))
	if _, err := renewed(t, b, holder); !errors.Is(err, driver.ErrGone) {
		t.Errorf("the holder is told %v", err)
	}
	second.Granted(t, 10*time.Second)
	if err := b.Evict(ctx, t.Name(), holder.ID); !errors.Is(err, driver.ErrGone) {
		t.Errorf("twice: %v", err)
	}
	must(t, b.Abandon(ctx, holder))
	must(t, b.Release(ctx, second.Claim))
	first.Granted(t, 10*time.Second)
	must(t, b.Release(ctx, first.Claim))
}

// A holder that is on few nodes still, as one is whose release a majority has confirmed, is not there to be evicted.
func TestEvictOfAFormerHolder(t *testing.T) {
	t.Parallel()
	nodes := five(t)
	b, c := newDriver(t, nodes), driverClaim(t.Name(), 10*time.Minute, false)
	take(t, b, c)
	onAllFive(t, nodes)
	ctx := within(t, 10*time.Minute)
	for _, client := range connect(t, nodes[:3]...) {
		must(t, client.Del(ctx, lockKey(t.Name())).Err())
	}
	if err := b.Evict(ctx, t.Name(), c.ID); !errors.Is(err, driver.ErrGone) {
		t.Errorf("got %v, want ErrGone", err)
	}
}

// A waiter that was evicted while a request of it was under way stands in each queue once, at the end.
func TestEvictDuringRequest(t *testing.T) {
	t.Parallel()
	nodes := five(t)
	clients, admins := connect(t, nodes...), connect(t, nodes...)
	pass := make(chan struct{})
	var held, delayed atomic.Int32
	for _, c := range clients {
		c.AddHook(delays(func(args []any) {
			if held.Load() > 0 && len(args) == 12 && strings.Contains(fmt.Sprint(args...), "queue") {
				delayed.Add(1)
				<-pass
			}
		}))
	}
	b, other := newDriverOver(t, clients), newDriver(t, nodes)
	ctx := within(t, 60*time.Second)
	holder, first, second := heldAndWanted(ctx, t, nodes, b, other)

	c := stateOf(first.Claim)
	held.Store(1)
	c.next.in(0, redisnode.Queue)
	eventually.Is(t, "five requests are delayed", func() bool { return delayed.Load() == 5 })
	must(t, other.Evict(ctx, t.Name(), first.Claim.ID))
	eventually.Is(t, "the waiter has heard of it", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return !c.evicted.IsZero()
	})
	held.Store(0)
	close(pass)
	eventually.Is(t, "it waits at the end, once", func() bool {
		for _, admin := range admins {
			queue, err := admin.LRange(ctx, queueKey(t.Name()), 0, -1).Result()
			if err != nil || len(queue) != 2 || !strings.Contains(queue[1], first.Claim.ID) {
				return false
			}
		}
		return true
	})
	must(t, other.Release(ctx, holder))
	second.Granted(t, 10*time.Second)
	must(t, other.Release(ctx, second.Claim))
	first.Granted(t, 10*time.Second)
	must(t, b.Release(ctx, first.Claim))
}

// delays is a hook of a client that is called before each command.
type delays func(args []any)

func (delays) DialHook(next goredis.DialHook) goredis.DialHook { return next }

func (delays) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return next
}

func (d delays) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		d(cmd.Args())
		return next(ctx, cmd)
	}
}

// A holder that needs less lets readers in, keeps its token and keeps writers out.
func TestLighten(t *testing.T) {
	t.Parallel()
	nodes := five(t)
	b, clients := newDriver(t, nodes), connect(t, nodes...)
	ctx := within(t, 60*time.Second)
	c := driverClaim(t.Name(), 10*time.Minute, false)
	g := take(t, b, c)
	r, w := sharedClaim(t.Name(), 10*time.Minute, true), driverClaim(t.Name(), 10*time.Minute, true)
	reader := begin(ctx, b, r)
	waits(t, clients, t.Name(), 1)
	writer := begin(ctx, b, w)
	waits(t, clients, t.Name(), 2)
	must(t, b.Lighten(ctx, c, 1))
	must(t, b.Lighten(ctx, c, 1))
	reader.Granted(t, 10*time.Second)
	all, err := b.Look(ctx, t.Name())
	must(t, err)
	if len(all) != 3 || !all[0].Held || !all[1].Held || all[2].Held {
		t.Errorf("got %+v", all)
	}
	if i := slices.IndexFunc(all, func(p driver.Position) bool { return p.ID == c.ID }); all[i].Token != g.Token || all[i].Weight != 1 {
		t.Errorf("got %+v", all[i])
	}
	if _, err := renewed(t, b, c); err != nil {
		t.Error(err)
	}
	must(t, b.Release(ctx, c))
	must(t, b.Release(ctx, r))
	writer.Granted(t, 10*time.Second)
	if err := b.Lighten(ctx, c, 1); !errors.Is(err, driver.ErrGone) {
		t.Errorf("after its release: %v", err)
	}
	must(t, b.Release(ctx, w))
}

// A node that misses that a holder needs less is told later.
func TestLightenIsRepeated(t *testing.T) {
	nodes := five(t)
	clients := connect(t, nodes...)
	var missed atomic.Bool
	clients[0].AddHook(fails(func(args []any) bool {
		return len(args) == 11 && strings.Contains(fmt.Sprint(args...), "keep") && !missed.Swap(true)
	}))
	b, ctx := newDriverOver(t, clients), within(t, 2*time.Minute)
	c := driverClaim(t.Name(), 10*time.Minute, false)
	take(t, b, c)
	onAllFive(t, nodes)
	must(t, b.Lighten(ctx, c, 1))
	for _, client := range connect(t, nodes...) {
		eventually.Is(t, "it holds the name as one of several", func() bool { return client.Type(ctx, lockKey(t.Name())).Val() == "hash" })
	}
	if !missed.Load() {
		t.Error("all were told at once")
	}
	must(t, b.Release(ctx, c))
}

// A name that lingers stays taken, seen as held, and is then passed on without anybody's help.
func TestLinger(t *testing.T) {
	t.Parallel()
	nodes := five(t)
	b, other, clients := newDriver(t, nodes), newDriver(t, nodes), connect(t, nodes...)
	ctx := within(t, 60*time.Second)
	c, next := driverClaim(t.Name(), 10*time.Minute, false), driverClaim(t.Name(), 10*time.Minute, true)
	take(t, b, c)
	w := begin(ctx, other, next)
	waits(t, clients, t.Name(), 1)
	const d = 2 * time.Second
	start, inTime := time.Now(), locktest.Limit(t, d+2*time.Second)
	must(t, b.Linger(ctx, c, d))
	all, err := other.Look(ctx, t.Name())
	if err != nil || time.Since(start) < d && (len(all) != 2 || all[0].ID != c.ID || !all[0].Held || all[0].Left > d) {
		t.Errorf("got %+v %v", all, err)
	}
	w.Granted(t, 20*time.Second)
	inTime("passing the name on")
	if took := time.Since(start); took < d-10*time.Millisecond {
		t.Errorf("passed on after %v", took)
	}
	must(t, other.Release(ctx, next))
}

// A holder is told that others wait.
func TestWanted(t *testing.T) {
	t.Parallel()
	nodes := five(t)
	b := newDriver(t, nodes)
	ctx, cancel := context.WithCancel(within(t, 60*time.Second))
	wanted := make(chan struct{}, 100)
	c := driverClaim(t.Name(), 10*time.Minute, false)
	c.Wanted = func() { wanted <- struct{}{} }
	take(t, b, c)
	_, err := renewed(t, b, c)
	must(t, err)
	if len(wanted) > 0 {
		t.Error("told although nobody waits")
	}
	next := driverClaim(t.Name(), 10*time.Minute, true)
	w := begin(ctx, b, next)
	waits(t, connect(t, nodes...), t.Name(), 1)
	_, err = renewed(t, b, c)
	must(t, err)
	eventually.Is(t, "told", func() bool { return len(wanted) > 0 })
	cancel()
	<-w.Done
	must(t, b.Abandon(context.Background(), next))
	must(t, b.Release(context.Background(), c))
}

// Spare tokens are nobody else's, whoever comes next, by whichever way.
func TestSpareTokens(t *testing.T) {
	t.Parallel()
	nodes := five(t)
	a, b := newDriver(t, nodes), newDriver(t, nodes)
	last, spare := int64(0), 0
	for i := range 60 {
		a, b = b, a
		ctx := within(t, 5*time.Minute)
		c, next := driverClaim(t.Name(), 10*time.Minute, false), driverClaim(t.Name(), 10*time.Minute, true)
		c.Spare, next.Spare = 5000, 5000
		g := take(t, a, c)
		w := begin(ctx, b, next)
		if i%2 == 0 {
			waits(t, connect(t, nodes...), t.Name(), 1)
		}
		must(t, a.Release(ctx, c))
		for _, g := range []driver.Grant{g, w.Granted(t, 10*time.Second)} {
			if g.Token <= last || g.Spare < 0 || g.Spare > 5000 {
				t.Fatalf("grant %+v after %d", g, last)
			}
			last = g.Token + g.Spare
			if g.Spare > 0 {
				spare++
			}
		}
		must(t, b.Release(ctx, next))
	}
	if spare < 30 {
		t.Errorf("%d of 120 grants had spare tokens", spare)
	}
	if ahead := last - time.Now().UnixMicro(); ahead > 500_000 {
		t.Errorf("tokens are %d us ahead of the time", ahead)
	}
}

// A reader whose process died does not live on because another renews.
func TestReadersEndEachForItself(t *testing.T) {
	t.Parallel()
	nodes := five(t)
	b := newDriver(t, nodes)
	ctx := within(t, 60*time.Second)
	dead, alive := sharedClaim(t.Name(), 2*time.Second, false), sharedClaim(t.Name(), 30*time.Second, false)
	take(t, b, dead)
	take(t, b, alive)
	w := driverClaim(t.Name(), 30*time.Second, true)
	writer := begin(ctx, b, w)
	waits(t, connect(t, nodes...), t.Name(), 1)
	eventually.Within(t, 20*time.Second, "the dead one is gone", func() bool {
		all, err := b.Look(ctx, t.Name())
		_, rerr := renewed(t, b, alive)
		return err == nil && rerr == nil && len(all) == 2
	})
	must(t, b.Release(ctx, alive))
	writer.Granted(t, 10*time.Second)
	must(t, b.Release(ctx, w))
}

// A node that was taken to be silent, and is asked just now whether it is, counts for a renewal.
func TestRenewalAsksSilentNodes(t *testing.T) {
	t.Parallel()
	nodes := five(t)
	b, c := newDriver(t, nodes), driverClaim(t.Name(), 30*time.Second, false)
	take(t, b, c)
	onAllFive(t, nodes)
	<-b.working.None()
	for _, n := range b.nodes[:2] {
		n.silent.Store(true)
		n.probing.Store(true)
	}
	for _, client := range connect(t, nodes[2:4]...) {
		must(t, client.Del(within(t, 10*time.Second), lockKey(t.Name())).Err())
	}
	if until, err := renewed(t, b, c); err != nil || until <= b.clock.Now() {
		t.Errorf("%v, %v", until, err)
	}
	must(t, b.Release(within(t, 30*time.Second), c))
}

// A log handler that hangs stops nothing, not even while a node falls silent.
func TestLogHandlerThatHangs(t *testing.T) {
	t.Parallel()
	nodes := five(t)
	list, fronts := proxies(t, nodes)
	hang := make(chan struct{})
	l := open(t, fronts, locker.WithLogger(slog.New(hangs{hang})), WithNodeTimeout(time.Second))
	t.Cleanup(func() { close(hang) }) // before the Locker is closed
	lock, err := l.Acquire(within(t, time.Minute), t.Name())
	must(t, err)
	onAllFive(t, nodes)
	list[0].Freeze()
	renewal, deadline := locktest.Renewal(t, lock), lock.Deadline()
	eventually.Is(t, "renewed", func() bool { return renewal() && lock.Deadline().After(deadline.Add(3*time.Second)) })
	must(t, lock.Release(within(t, 10*time.Second)))
}

// A log handler that hangs keeps no answer of a node that falls silent, or of one that answers again.
func TestAnswerUnderLogHandlerThatHangs(t *testing.T) {
	hang := make(chan struct{})
	defer close(hang)
	b := &backend{log: slog.New(hangs{hang}), bound: time.Second, life: t.Context()}
	n := &node{name: "a"}
	for _, answer := range []error{context.DeadlineExceeded, nil, context.DeadlineExceeded} {
		sent := make(chan error, 1)
		go func() { sent <- b.send(n, func(context.Context) error { return answer }) }()
		if err := locktest.Receive(t, "the answer", sent, time.Minute); err != answer {
			t.Errorf("got %v, want %v", err, answer)
		}
	}
}

type hangs struct{ until chan struct{} }

func (h hangs) Enabled(context.Context, slog.Level) bool { return true }
func (h hangs) Handle(context.Context, slog.Record) error {
	<-h.until
	return nil
}
func (h hangs) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h hangs) WithGroup(string) slog.Handler      { return h }

package redlock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/redisnode"
	"github.com/seed80cd6120/locker/internal/servers"
)

// votesOf asks single nodes for the name.
func votesOf(t testing.TB, b *backend, c *claim, nodes ...int) {
	t.Helper()
	for _, i := range nodes {
		must(t, b.askNode(c, c.places[i], redisnode.Try, b.nextToken(c)))
	}
	if held := b.held(c); held != len(nodes) {
		t.Fatalf("held on %d nodes, want %v", held, nodes)
	}
}

// Of two who hold the name on two nodes each the older gets it, although neither knows of the other
// more than that it is there.
func TestSplitVotesGoToTheOldest(t *testing.T) {
	t.Parallel()
	nodes := five(t)
	clients := connect(t, nodes...)
	for range 10 {
		ctx := within(t, 60*time.Second)
		must(t, clients[2].Set(ctx, lockKey(t.Name()), "somebody else's", time.Minute).Err())
		a, b := newDriver(t, nodes), newDriver(t, nodes)
		older, younger := driverClaim(t.Name(), 30*time.Second, true), driverClaim(t.Name(), 30*time.Second, true)
		first := a.newClaim(older)
		first.since = a.time()
		votesOf(t, a, first, 0, 1)
		second := b.newClaim(younger)
		second.since = first.since + 1_000_000
		votesOf(t, b, second, 3, 4)
		granted := make(chan error, 2)
		go func() {
			_, err := b.acquire(ctx, second)
			if err == nil {
				err = b.Release(ctx, younger)
			}
			granted <- err
		}()
		if g, err := a.acquire(ctx, first); err != nil || g.Token == 0 {
			t.Fatalf("%+v %v", g, err)
		}
		select {
		case err := <-granted:
			t.Fatalf("the younger came first: %v", err)
		default:
		}
		must(t, a.Release(ctx, older))
		must(t, <-granted)
		must(t, clients[2].Del(ctx, lockKey(t.Name())).Err())
		nothingLeft(t, nodes)
	}
}

// The same when the older comes to the queue of the node in question only after the younger has looked there several times.
func TestSplitVotesGoToTheOldestThatComesLate(t *testing.T) {
	t.Parallel()
	nodes := five(t)[:3]
	list, fronts := proxies(t, nodes)
	a, b, ctx := newDriver(t, fronts), newDriver(t, fronts), within(t, 5*time.Minute)
	list[1].Refuse()
	older, younger := driverClaim(t.Name(), 10*time.Minute, true), driverClaim(t.Name(), 10*time.Minute, true)
	first, second := a.newClaim(older), b.newClaim(younger)
	first.since = a.time()
	second.since = first.since + 1_000_000
	votesOf(t, a, first, 2)
	votesOf(t, b, second, 0)
	w := begin(ctx, waitsAs{b, second}, younger)
	time.Sleep(500 * time.Millisecond)
	isGranted(ctx, t, a, first, 12*time.Second) // by itself each looks every 20 s
	w.Granted(t, time.Minute)
	must(t, b.Release(ctx, younger))
	nothingLeft(t, nodes)
}

// isGranted acquires a claim that is the oldest, which has to succeed within d, and releases it.
func isGranted(ctx context.Context, t *testing.T, b *backend, c *claim, d time.Duration) {
	t.Helper()
	inTime := locktest.Limit(t, d)
	_, err := b.acquire(ctx, c)
	must(t, err)
	inTime("the wait of the older")
	must(t, b.Release(ctx, c.Claim))
}

// The same when the younger is told of its votes only when a majority has refused it, and it waits.
func TestSplitVotesThatComeLate(t *testing.T) {
	t.Parallel()
	nodes := five(t)
	list, fronts := proxies(t, nodes[3:])
	clients := connect(t, nodes...)
	a, b, ctx := newDriver(t, nodes), newDriver(t, slices.Concat(nodes[:3], fronts)), within(t, 5*time.Minute)
	must(t, clients[2].Set(ctx, lockKey(t.Name()), "somebody else's", 10*time.Minute).Err())
	older, younger := driverClaim(t.Name(), 10*time.Minute, true), driverClaim(t.Name(), 10*time.Minute, true)
	first := a.newClaim(older)
	first.since = a.time()
	votesOf(t, a, first, 0, 1)
	for _, p := range list {
		p.Delay(0, 300*time.Millisecond)
	}
	began := time.Now()
	w := begin(ctx, b, younger)
	waits(t, clients, t.Name(), 1)
	keys(t, nodes, 8, time.Minute) // the younger holds the name on two, and queues on three
	// By itself each looks every 20 s, and the longer it has waited the later.
	isGranted(ctx, t, a, first, 12*time.Second+time.Since(began))
	w.Granted(t, time.Minute)
	must(t, b.Release(ctx, younger))
	must(t, clients[2].Del(ctx, lockKey(t.Name())).Err())
	nothingLeft(t, nodes)
}

// waitsAs is a driver that acquires a claim that has begun already.
type waitsAs struct {
	*backend
	c *claim
}

func (w waitsAs) Acquire(ctx context.Context, _ *driver.Claim) (driver.Grant, error) {
	return w.acquire(ctx, w.c)
}

// A client whose clock is ahead queues by the time of the nodes, also if it has not asked them before.
func TestAgeIsInTheNodesTime(t *testing.T) {
	t.Parallel()
	nodes := five(t)
	ctx := within(t, 60*time.Second)
	holder, held := newDriver(t, nodes), driverClaim(t.Name(), 10*time.Minute, false)
	take(t, holder, held)
	onAllFive(t, nodes)
	b := clockAhead(t, nodes, time.Hour)
	c := driverClaim(t.Name(), 10*time.Minute, true)
	w := begin(ctx, b, c)
	waits(t, connect(t, nodes...), t.Name(), 1)
	all, err := holder.Look(ctx, t.Name())
	must(t, err)
	if len(all) != 2 || time.Until(all[1].Since).Abs() > 10*time.Minute {
		t.Errorf("%+v", all)
	}
	must(t, holder.Release(ctx, held))
	w.Granted(t, 10*time.Second)
	must(t, b.Release(ctx, c))
}

// clockAhead makes the driver on a machine whose clock is ahead of the nodes', as it has yet to learn from them.
func clockAhead(t *testing.T, nodes []string, d time.Duration) *backend {
	t.Helper()
	cfg, err := locker.NewConfig("redlock", &settings{})
	must(t, err)
	clock := &settable{Clock: cfg.Clock}
	cfg.Clock = clock
	b, err := newBackend(connect(t, nodes...), cfg, settings{prefix: DefaultPrefix, bound: 20 * time.Second})
	must(t, err)
	locktest.CloseAfter(t, b.Close)
	clock.ahead.Store(int64(d))
	return b
}

type settable struct {
	driver.Clock
	ahead atomic.Int64
}

func (s *settable) Now() driver.Instant { return s.Clock.Now().Add(time.Duration(s.ahead.Load())) }

// What a node answers counts also when its clock has been set back since it answered last.
func TestAnswerAfterClockWasSetBack(t *testing.T) {
	b := newDriver(t, five(t))
	c := b.newClaim(driverClaim(t.Name(), 30*time.Second, false))
	votesOf(t, b, c, 0)
	p := c.places[0]
	p.said.Now += time.Hour.Microseconds()
	p.vote = driver.ErrGone
	if err := b.askNode(c, p, redisnode.Try, b.nextToken(c)); err != nil {
		t.Errorf("it does not count: %v", err)
	}
	must(t, b.Abandon(within(t, 30*time.Second), c.Claim))
}

// A node known to be silent is waited for by nobody if the others have answered: not by the claim that asks whether it is there
// again, and not by the next look of that.
func TestSilentNodeIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	nodes := five(t)
	list, fronts := proxies(t, nodes)
	ctx := within(t, 5*time.Minute)
	b := newDriver(t, fronts, WithNodeTimeout(time.Minute))
	for _, client := range connect(t, nodes[:2]...) {
		must(t, client.Set(ctx, lockKey(t.Name()), "somebody else's", 10*time.Minute).Err())
	}
	list[4].Freeze()
	b.nodes[4].silent.Store(true)
	c := b.newClaim(driverClaim(t.Name(), 10*time.Minute, false))
	inTime := locktest.Limit(t, 15*time.Second)
	for range 2 {
		b.askFor(ctx, c, redisnode.Try)
		if yes, no := b.votes(c).count(); yes != 2 || no != 2 {
			t.Errorf("%d yes, %d no", yes, no)
		}
		eventually.Is(t, "it is asked", func() bool { return list[4].Stats().HeldUp > 0 })
	}
	inTime("two looks") // the client gives a request up after 20 s
	p := c.places[4]
	p.calls.Lock()
	p.silent.Store(true)
	if err := b.askNode(c, p, redisnode.Try, 0); err != errSilent {
		t.Errorf("it is asked twice at a time: %v", err)
	}
	p.calls.Unlock()
	list[4].Heal()
	must(t, b.Abandon(ctx, c.Claim))
	for _, client := range connect(t, nodes[:2]...) {
		must(t, client.Del(ctx, lockKey(t.Name())).Err())
	}
	nothingLeft(t, nodes)
}

// Who was granted the name by a majority of which one dies before the token is agreed on gets it with
// the help of the others.
func TestVoteOfNodeThatDies(t *testing.T) {
	t.Parallel()
	nodes := five(t)
	list, fronts := proxies(t, nodes)
	b := newDriver(t, fronts)
	dc := driverClaim(t.Name(), 30*time.Second, true)
	c := b.newClaim(dc)
	votesOf(t, b, c, 0, 1, 2) // each with another token
	list[2].Refuse()
	list[2].Cut()
	if g, err := b.acquire(within(t, 20*time.Second), c); err != nil || g.Token == 0 {
		t.Fatalf("%+v %v", g, err)
	}
	if held := b.held(c); held < 3 {
		t.Errorf("held on %d nodes", held)
	}
	list[2].Heal()
	must(t, b.Release(within(t, 20*time.Second), dc))
	nothingLeft(t, nodes)
}

// Of many who ask at the same time all get the name in the end, and then nothing is left.
func TestNobodyStarves(t *testing.T) {
	t.Parallel()
	nodes := five(t)
	var wg sync.WaitGroup
	for range 12 {
		l := open(t, nodes)
		wg.Go(func() {
			for range 5 {
				lock, err := l.Acquire(within(t, 60*time.Second), t.Name())
				if err == nil {
					err = locktest.Freed(context.Background(), lock)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	nothingLeft(t, nodes)
}

// A waiter that has the votes of some nodes asks the others when the holder's time is over: its own
// know nothing of that.
func TestWaiterWithVotesSeesTheEndOfTheHolder(t *testing.T) {
	t.Parallel()
	nodes := five(t)
	b := newDriver(t, nodes)
	ctx := within(t, 60*time.Second)
	const left = 2 * time.Second
	dead := fmt.Sprintf("1 0123456789abcdef0123456789abcdef %d 2147483647 2147483647 2000 1 1 dead", time.Now().Add(left).UnixMicro())
	for _, c := range connect(t, nodes...)[2:] {
		must(t, c.Set(ctx, lockKey(t.Name()), dead, left).Err())
	}
	c := driverClaim(t.Name(), 30*time.Second, true)
	inTime := locktest.Limit(t, left+8*time.Second) // without its look then the next is after 20 s
	take(t, b, c)
	inTime("the wait")
	must(t, b.Release(ctx, c))
}

// A key that never expires, which somebody left under the name, is not asked for again and again.
func TestKeyWithoutTTLIsWaitedForQuietly(t *testing.T) {
	set := servers.NewRedisSet(t, 5, servers.RedisOptions{})
	nodes := addrs(set)
	b := newDriver(t, nodes)
	ctx := within(t, 10*time.Minute)
	clients := connect(t, nodes...)
	for _, c := range clients {
		must(t, c.Set(ctx, lockKey(t.Name()), "not a lock", 0).Err())
	}
	c := driverClaim(t.Name(), 30*time.Second, true)
	begin(ctx, b, c)
	eventually.Is(t, "it waits on all nodes", func() bool {
		return !slices.ContainsFunc(clients, func(c goredis.UniversalClient) bool { return c.LLen(ctx, queueKey(t.Name())).Val() == 0 })
	})
	if n := cost(t, set, 5, func() { time.Sleep(3 * time.Second) }); n > 5 {
		t.Errorf("%d requests in 3 s", n)
	}
	for _, c := range clients {
		must(t, c.Del(ctx, lockKey(t.Name())).Err())
	}
}

// Who may not listen, or not tell, is told so instead of waiting for messages that never come; where
// that is so on a minority only, the log says it.
func TestDeniedMessages(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		command string
		silent  int
	}{{"subscribe", 5}, {"publish", 5}, {"pubsub", 5}, {"publish", 2}, {"pubsub", 2}} {
		command, silent := row.command, row.silent
		t.Run(fmt.Sprint(command, " ", silent), func(t *testing.T) {
			set := servers.NewRedisSet(t, 5, servers.RedisOptions{})
			ctx := within(t, 5*time.Minute)
			holder := newDriver(t, addrs(set))
			held := driverClaim(t.Name(), 10*time.Minute, false)
			take(t, holder, held)
			onAllFive(t, addrs(set))
			for i := range silent {
				must(t, connect(t, set[i].Addr())[0].Do(ctx, "acl", "setuser", "default", "-"+command).Err())
			}
			var log eventually.Output
			b := newDriver(t, addrs(set), locker.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
			c := driverClaim(t.Name(), 10*time.Minute, true)
			w := begin(ctx, b, c)
			if silent == 5 {
				inTime := locktest.Limit(t, 30*time.Second)
				<-w.Done
				inTime("the refusal")
				if !errors.Is(w.Err, driver.ErrRefused) {
					t.Errorf("got %v", w.Err)
				}
				return
			}
			eventually.Is(t, "it is logged", func() bool { return strings.Contains(log.String(), "cannot tell") })
			must(t, holder.Release(ctx, held))
			w.Granted(t, 10*time.Second)
			must(t, b.Release(ctx, c))
		})
	}
}

// A waiter whose time ends while the nodes have yet to answer says what they said before.
func TestReasonOutlivesTheNextLook(t *testing.T) {
	t.Parallel()
	nodes := addrs(servers.NewRedisSet(t, 3, servers.RedisOptions{}))
	ctx := within(t, 60*time.Second)
	replicas := func(wanted string) {
		for _, c := range connect(t, nodes...) {
			must(t, c.ConfigSet(ctx, "min-replicas-to-write", wanted).Err())
		}
	}
	replicas("5")
	list, fronts := proxies(t, nodes)
	b := newDriver(t, fronts)
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	c, ended := b.newClaim(driverClaim(t.Name(), 30*time.Second, true)), make(chan error, 1)
	go func() {
		_, err := b.acquire(waiting, c)
		ended <- err
	}()
	reasons := func(err error) int { return strings.Count(err.Error(), "NOREPLICAS") }
	eventually.Is(t, "all have refused, and it pauses", func() bool {
		c.next.mu.Lock()
		due := c.next.due
		c.next.mu.Unlock()
		if reasons(b.failure(b.votes(c))) != len(nodes) {
			return false
		}
		c.next.mu.Lock() // no look begins meanwhile
		defer c.next.mu.Unlock()
		if pause := time.Until(due); c.next.due != due || pause <= 0 || pause > retryEvery {
			return false
		}
		for _, p := range list {
			p.FreezeUp()
		}
		return true
	})
	for _, p := range list {
		eventually.Is(t, "it is asked again", func() bool { return p.Stats().HeldUp > 0 })
	}
	cancel()
	if err := <-ended; reasons(err) != len(nodes) {
		t.Errorf("%d reasons in %v", reasons(err), err)
	}
	for _, p := range list {
		p.Heal()
	}
	replicas("0")
	must(t, b.Abandon(ctx, c.Claim))
}

// Nodes of which not even a connection can be made in time are waited for like others that are away.
func TestDialThatTimesOutIsWaitedFor(t *testing.T) {
	t.Parallel()
	var away atomic.Bool
	var dialled atomic.Int64
	away.Store(true)
	var clients []goredis.UniversalClient
	for _, addr := range five(t) {
		o := options(addr)
		o.DialerRetries = 1
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if dialled.Add(1); away.Load() {
				return nil, &net.OpError{Op: "dial", Net: network, Err: context.DeadlineExceeded}
			}
			return new(net.Dialer).DialContext(ctx, network, addr)
		}
		c := goredis.NewClient(o)
		t.Cleanup(func() { _ = c.Close() })
		clients = append(clients, c)
	}
	b := newDriverOver(t, clients)
	c := driverClaim(t.Name(), 30*time.Second, true)
	w := begin(within(t, 60*time.Second), b, c)
	eventually.Within(t, 10*time.Second, "some looks, and some tries to subscribe", func() bool {
		select {
		case <-w.Done:
			t.Fatalf("it did not wait: %v", w.Err)
		default:
		}
		return dialled.Load() >= 20
	})
	away.Store(false)
	w.Granted(t, 30*time.Second)
	must(t, b.Release(within(t, 30*time.Second), c))
}

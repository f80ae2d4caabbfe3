package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/proxy"
	"github.com/seed80cd6120/locker/internal/servers"
)

// From goroutine to goroutine of one Locker a name costs one request: the release, which
// takes the next one's place in the queue along. At the server one waits at a time.
func TestOneRequestEach(t *testing.T) {
	t.Parallel()
	const goroutines, times = 16, 50
	r := servers.NewRedis(t, servers.RedisOptions{})
	admin := connect(t, r.Addr())
	l := open(t, connect(t, r.Addr()))
	name := freshName(t)
	lock := acquire(t, l, name)
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			for range times {
				lock, err := l.Acquire(within(t, 30*time.Second), name)
				if err != nil {
					t.Error(err)
					return
				}
				if more, err := admin.LLen(context.Background(), queueKey(name)).Result(); err != nil || more > 1 {
					t.Errorf("%d of one Locker wait at the server, %v", more, err)
				}
				if err := lock.Release(within(t, 30*time.Second)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	queued(t, admin, name, 1)
	before := requestsAt(t, r)
	release(t, lock)
	all.Wait()
	did := requestsAt(t, r) - before - goroutines*times // which asked for the length
	if each := float64(did) / (goroutines * times); each > 1.5 {
		t.Errorf("%.2f requests for each, want 1", each)
	}
}

// relaying is a driver with a holder and one that waits behind it, on a network that
// can be disturbed.
type relaying struct {
	*taped
	t             *testing.T
	admin         *goredis.Client
	network       *proxy.Proxy
	name          string
	first, second *driver.Claim
	waits         <-chan granted
	giveUp        context.CancelFunc // of the second
}

type granted struct {
	driver.Grant
	err error
}

func relays(t *testing.T, server *servers.Redis) *relaying {
	t.Helper()
	r := &relaying{t: t, admin: connect(t, server.Addr()), network: front(t, server.Addr()), name: freshName(t)}
	r.taped = &taped{backend: opened(t, connect(t, r.network.Addr()))}
	r.first, r.second = r.claim(), r.claim()
	r.holds(r.asks(within(t, 20*time.Second), r.first))
	ctx, cancel := context.WithCancel(within(t, 20*time.Second))
	r.waits, r.giveUp = r.asks(ctx, r.second), cancel
	queued(t, r.admin, r.name, 1)
	eventually.Is(t, "the second knows that it is in the queue", func() bool { return r.watches(r.first.State.(*ticket).bucket) })
	return r
}

// leaves has the second leave the queue.
func (r *relaying) leaves() {
	r.t.Helper()
	r.giveUp()
	<-r.waits
	r.must(r.Abandon(within(r.t, 20*time.Second), r.second))
}

func (r *relaying) claim() *driver.Claim { return claim(r.name, 10*time.Second, true) }

func (r *relaying) asks(ctx context.Context, c *driver.Claim) <-chan granted {
	answers := make(chan granted, 1)
	go func() {
		g, err := r.Acquire(ctx, c)
		answers <- granted{g, err}
	}()
	return answers
}

func (r *relaying) holds(answers <-chan granted) (token int64) {
	r.t.Helper()
	select {
	case g := <-answers:
		r.must(g.err)
		return g.Token
	case <-time.After(slack + 5*time.Second):
		r.t.Fatal("not granted")
		return 0
	}
}

func (r *relaying) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// relay releases the first, with a third along.
func (r *relaying) relay() (third *driver.Claim, joined bool, err error) {
	third = r.claim()
	err = r.Relay(within(r.t, 20*time.Second), r.first, third, func() { joined = true })
	return third, joined, err
}

// takesAlong is relay where nothing is in the way.
func (r *relaying) takesAlong() (third *driver.Claim) {
	r.t.Helper()
	third, joined, err := r.relay()
	r.must(err)
	if !joined {
		r.t.Fatal("not taken along")
	}
	return third
}

// left checks that nothing is left of the name once all have ended.
func (r *relaying) left(claims ...*driver.Claim) {
	r.t.Helper()
	for _, c := range claims {
		r.must(r.Release(within(r.t, 20*time.Second), c))
	}
	nothingLeft(r.t, r.admin, r.name)
	r.listener.mu.Lock()
	defer r.listener.mu.Unlock()
	for id, w := range r.listener.claims {
		r.t.Errorf("claim %s is still known, waiting: %v", id, w.waiting)
	}
	for _, ch := range r.listener.channels {
		if len(ch.waiters) > 0 {
			r.t.Errorf("%d waiters are left", len(ch.waiters))
		}
	}
}

// The one that the name goes to learns of it when the next is said to be in its place, not before.
func TestNextIsInPlaceFirst(t *testing.T) {
	t.Parallel()
	r := relays(t, servers.SharedRedis(t))
	third := r.claim()
	r.must(r.Relay(within(t, 20*time.Second), r.first, third, func() {
		select {
		case <-r.waits:
			t.Fatal("granted before")
		case <-time.After(50 * time.Millisecond):
		}
	}))
	r.holds(r.waits)
	r.must(r.Release(within(t, 20*time.Second), r.second))
	r.holds(r.asks(within(t, 20*time.Second), third))
	r.left(third)
}

// What was taken along may have the name before its Acquire is called.
func TestGrantedBeforeItAsks(t *testing.T) {
	t.Parallel()
	r := relays(t, servers.SharedRedis(t))
	third := r.takesAlong()
	before := r.holds(r.waits)
	r.must(r.Release(within(t, 20*time.Second), r.second))
	if token := r.holds(r.asks(within(t, 20*time.Second), third)); token <= before {
		t.Errorf("token %d after %d", token, before)
	}
	r.left(third)
}

// What was taken along and is not wanted any more leaves nothing behind.
func TestTakenAlongAndGivenUp(t *testing.T) {
	t.Parallel()
	r := relays(t, servers.SharedRedis(t))
	third := r.takesAlong()
	if d := r.admin.PTTL(context.Background(), queueKey(r.name)).Val(); d <= 0 {
		t.Errorf("the queue stays for %v", d)
	}
	r.must(r.Abandon(within(t, 20*time.Second), third))
	if n := r.admin.LLen(context.Background(), queueKey(r.name)).Val(); n != 0 {
		t.Errorf("%d in the queue", n)
	}
	r.holds(r.waits)
	r.left(r.second)
}

// While the server's time is behind the last token, the release does more and takes nobody
// along, who then asks as if nothing had been tried.
func TestRelayWithTheTimeBehind(t *testing.T) {
	t.Parallel()
	r := relays(t, servers.NewRedis(t, servers.RedisOptions{}))
	ctx := within(t, 20*time.Second)
	clock := plain.of(r.name).clock
	last := r.admin.Get(ctx, clock).Val()
	future := fmt.Sprint(time.Now().Add(time.Hour).UnixMicro())
	r.must(r.admin.Set(ctx, clock, future+last[16:], 0).Err())
	third, joined, err := r.relay()
	r.must(err)
	if joined || r.admin.Exists(ctx, plain.of(r.name).gone(third.ID)).Val() != 0 {
		t.Error("taken along, or given up")
	}
	second := r.holds(r.waits)
	waits := r.asks(ctx, third)
	queued(t, r.admin, r.name, 1)
	r.must(r.Release(ctx, r.second))
	if token := r.holds(waits); token <= second || fmt.Sprint(token) <= future {
		t.Errorf("token %d after %d and %s", token, second, future)
	}
	r.left(third)
}

// Who is not told anything waits for the subscription first.
func TestRelayWithoutSubscription(t *testing.T) {
	t.Parallel()
	r := relays(t, servers.SharedRedis(t))
	r.listener.mu.Lock()
	for _, ch := range r.listener.channels {
		ch.up = false
	}
	r.listener.mu.Unlock()
	_, joined, err := r.relay()
	r.must(err)
	if joined {
		t.Error("taken along")
	}
	r.holds(r.waits)
	r.left(r.second)
}

// Whether a release that was not answered took somebody along is not known: that one
// looks whether it is in the queue, and stands there once.
func TestRelayIsNotAnswered(t *testing.T) {
	t.Parallel()
	for _, lost := range []string{"request", "answer"} {
		r := relays(t, servers.SharedRedis(t))
		if lost == "request" {
			r.network.FreezeUp()
			time.AfterFunc(300*time.Millisecond, func() { r.network.Cut(); r.network.Heal() })
		} else {
			r.network.SwallowReply(requestsOf(r.scripts.release), 0)
		}
		third, joined, err := r.relay()
		for err != nil && !errors.Is(err, driver.ErrGone) {
			err = r.Release(within(t, 20*time.Second), r.first) // as the core does
		}
		if !joined {
			t.Fatalf("lost %s: said not to be in the queue for certain", lost)
		}
		if third.State.(*ticket).stray == 0 {
			t.Errorf("lost %s: it may still arrive, and that was forgotten", lost)
		}
		if !third.State.(*ticket).drift {
			t.Errorf("lost %s: it may still arrive, whatever is said of the claim, and that was forgotten", lost)
		}
		waits := r.asks(within(t, 20*time.Second), third)
		second := r.holds(r.waits)
		queued(t, r.admin, r.name, 1)
		r.must(r.Release(within(t, 20*time.Second), r.second))
		if token := r.holds(waits); token <= second {
			t.Errorf("lost %s: token %d after %d", lost, token, second)
		}
		if n := r.admin.LLen(context.Background(), queueKey(r.name)).Val(); n != 0 {
			t.Errorf("lost %s: it is in the queue and has the name", lost)
		}
		r.left(third)
	}
}

// Promise 5: what was to be taken along and was given up does not join when the request comes
// late. The name is released all the same.
func TestRelayThatArrivesLate(t *testing.T) {
	t.Parallel()
	for what, spoil := range map[string]func(r *relaying, third *ticket, words args){
		"given up": func(r *relaying, third *ticket, words args) {
			third.touched, third.drift, third.stray = true, true, words[9].(int64)
			r.must(r.Abandon(within(t, 20*time.Second), third.claim))
		},
		"too old":    func(r *relaying, _ *ticket, words args) { words[9] = micros(r.clock.Now()) + r.times.ahead.Load() - 1 },
		"not marked": func(_ *relaying, _ *ticket, words args) { words[9] = words[9].(int64) + time.Hour.Microseconds() },
	} {
		for _, how := range []string{"join", "follow"} {
			r := relays(t, servers.SharedRedis(t))
			third := r.ticket(r.claim())
			now := r.clock.Now()
			words := r.relayArgs(r.first.State.(*ticket), third, now, r.times.latest(now))
			words[10] = how
			spoil(r, third, words)
			v, err := r.scripts.release.run(within(t, 20*time.Second), r.client, slices.Clone(words))
			r.must(err)
			news, _ := v.(string)
			if _, joined := r.queued(third, new(answer), news); joined {
				t.Errorf("%s, %s: the server answered %q", how, what, news)
			}
			if n := r.admin.LLen(context.Background(), queueKey(r.name)).Val(); n != 0 {
				t.Errorf("%s, %s: it is in the queue", how, what)
			}
			r.listener.tell(news, handover{received: r.clock.Now()})
			r.holds(r.waits)
			r.listener.forget(r.first.ID)
			r.left(r.second)
		}
	}
}

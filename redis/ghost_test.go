package redis

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/servers"
)

// Nothing comes later of what was given up.

// taped keeps what was sent to acquire, as a network does that delivers it late.
type taped struct{ *backend }

func (b *taped) replay(t *testing.T, words args) any {
	t.Helper()
	v, err := b.scripts.acquire.run(within(t, 20*time.Second), b.client, slices.Clone(words))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func request(b *backend, tk *ticket, how ...any) args {
	words := args{nil, nil, two, tk.lock, tk.clockArg}
	if len(how) > 0 {
		words = args{nil, nil, four, tk.lock, tk.clockArg, tk.queue(), tk.gone(tk.claim.ID)}
	}
	words = append(words, tk.id, tk.owner, tk.ttl, b.times.latest(b.clock.Now()))
	if len(how) > 0 {
		words = append(words, b.seen.Load())
	}
	return append(words, how...)
}

// A request that the network has kept back has no effect when it arrives after
// the claim was given up, however late.
func TestRequestThatArrivesAfterAbandon(t *testing.T) {
	t.Parallel()
	r := servers.SharedRedis(t)
	admin := connect(t, r.Addr())
	p := front(t, r.Addr())
	ctx := context.Background()
	for _, how := range []string{"try", "wait", "wait while held"} {
		b := &taped{backend: opened(t, connect(t, p.Addr()))}
		name := freshName(t)
		if how == "wait while held" {
			acquire(t, open(t, admin), name)
		}
		c := claim(name, 10*time.Second, how != "try")
		tk := b.ticket(c)
		words := request(b.backend, tk)
		if how != "try" {
			words = request(b.backend, tk, tk.channelArg, "")
		}

		p.FreezeUp()
		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		if _, err := b.Acquire(short, c); err == nil {
			t.Fatal("acquired through a frozen network")
		}
		cancel()
		tk = c.State.(*ticket)
		if tk.stray == 0 {
			t.Fatal("a request without an answer was forgotten")
		}
		p.Heal()
		if err := b.Abandon(within(t, 20*time.Second), c); err != nil {
			t.Fatal(err)
		}
		v := b.replay(t, words)
		if how == "try" && v == int64(-2) {
			// Somebody has to look closer; this is how.
			v = b.replay(t, request(b.backend, tk, "", ""))
		}
		if v != int64(-1) {
			t.Errorf("%s: the server answered %v to a claim that was given up", how, v)
		}
		if n := admin.LLen(ctx, queueKey(name)).Val(); n != 0 {
			t.Errorf("%s: it is in the queue", how)
		}

		// By the time the server has forgotten that the claim was given up, the
		// request is too old.
		words = request(b.backend, tk, tk.channelArg, "")
		words[10] = micros(b.clock.Now()) + b.times.ahead.Load() - 1
		admin.Del(ctx, tk.gone(c.ID))
		if v, ok := b.replay(t, words).([]any); !ok || len(v) != 1 {
			t.Errorf("%s: the server answered %v to a request that is too old", how, v)
		}
		if how != "wait while held" {
			nothingLeft(t, admin, name)
			release(t, acquire(t, open(t, admin), name))
		}
	}
}

// The same after a release: the first request is still on its way when its
// repetition has been granted and the lock released again.
func TestRequestThatArrivesAfterRelease(t *testing.T) {
	t.Parallel()
	r := servers.SharedRedis(t)
	p := front(t, r.Addr())
	client := connect(t, p.Addr())
	loaded(t, client, freshName(t))
	b := &taped{backend: opened(t, client)}
	c := claim(freshName(t), 10*time.Second, false)
	p.SwallowReply(requestsOf(b.scripts.acquire), 0)
	if _, err := b.Acquire(within(t, 20*time.Second), c); err != nil {
		t.Fatal(err)
	}
	tk := c.State.(*ticket)
	words := request(b.backend, tk)
	words[8] = tk.stray
	full := request(b.backend, tk, "", "")
	full[9] = tk.stray
	if err := b.Release(within(t, 20*time.Second), c); err != nil {
		t.Fatal(err)
	}
	if v := b.replay(t, words); v != int64(-2) {
		t.Errorf("the server answered %v to a claim that has been released", v)
	}
	if v := b.replay(t, full); v != int64(-1) {
		t.Errorf("the server answered %v to a claim that has been released", v)
	}
	nothingLeft(t, connect(t, r.Addr()), c.Name)
}

// A server whose clock differs from ours costs one request more, once.
func TestServerTimeDiffers(t *testing.T) {
	t.Parallel()
	r := servers.SharedRedis(t)
	for _, off := range []time.Duration{-time.Hour, time.Hour} {
		b := opened(t, connect(t, r.Addr()))
		b.times.ahead.Add(off.Microseconds())
		c := claim(freshName(t), 10*time.Second, false)
		if _, err := b.Acquire(within(t, 20*time.Second), c); err != nil {
			t.Fatalf("off by %v: %v", off, err)
		}
		if err := b.Release(within(t, 20*time.Second), c); err != nil {
			t.Fatal(err)
		}
	}
}

// Row 25: cancelled at any moment of the exchange, nothing stays.
func TestCancelledAtAnyMoment(t *testing.T) {
	t.Parallel()
	r := servers.NewRedis(t, servers.RedisOptions{})
	admin := connect(t, r.Addr())
	p := front(t, r.Addr())
	p.Delay(2*time.Millisecond, 2*time.Millisecond)
	var lockers []locker.Locker
	for range 4 {
		l := open(t, connect(t, p.Addr()))
		lockers = append(lockers, l, l, l)
	}
	name := freshName(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var last int64
	granted := 0
	for i, l := range lockers {
		wg.Go(func() {
			for range 20 {
				ctx, cancel := context.WithCancel(context.Background())
				time.AfterFunc(rand.N(40*time.Millisecond), cancel)
				var lock *locker.Lock
				var err error
				if i%4 == 0 {
					lock, err = l.TryAcquire(ctx, name)
				} else {
					lock, err = l.Acquire(ctx, name)
				}
				if err == nil {
					mu.Lock()
					granted++
					if lock.Token() <= last {
						t.Errorf("token %d after %d", lock.Token(), last)
					}
					last = lock.Token()
					mu.Unlock()
					if err := lock.Release(context.Background()); err != nil {
						t.Error(err)
					}
				}
				cancel()
			}
		})
	}
	wg.Wait()
	nothingLeft(t, admin, name)
	t.Logf("%d of 240 were granted", granted)
	release(t, acquire(t, lockers[0], name))
}

// Row 22: the server stalls. The holder loses its lock at the deadline; waiters go on
// after.
func TestServerStalls(t *testing.T) {
	t.Parallel()
	r := servers.NewRedis(t, servers.RedisOptions{})
	admin := connect(t, r.Addr())
	const ttl = 1500 * time.Millisecond
	a, b := open(t, connect(t, r.Addr()), locker.WithTTL(ttl)), open(t, connect(t, r.Addr()), locker.WithTTL(10*time.Second))
	name := freshName(t)
	lock := acquire(t, a, name)
	w := wants(within(t, 60*time.Second), b, name)
	queued(t, admin, name, 1)
	began := time.Now()
	if err := r.Pause(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-lock.Context().Done():
		if took := time.Since(began); took > ttl+slack {
			t.Errorf("lost after %v", took)
		}
	case <-time.After(ttl + slack):
		t.Error("the holder was not told")
	}
	if err := r.Resume(); err != nil {
		t.Fatal(err)
	}
	next := w.holds(t, 3*time.Second+slack)
	if next.Token() <= lock.Token() {
		t.Errorf("token %d after %d", next.Token(), lock.Token())
	}
	if err := lock.Release(within(t, 10*time.Second)); !errors.Is(err, locker.ErrLost) {
		t.Errorf("release after the loss: %v", err)
	}
	release(t, next)
}

// A message that comes late gives no more than what is left: the waiter asks how
// long it may hold.
func TestMessageThatComesLate(t *testing.T) {
	t.Parallel()
	b := opened(t, idle(t))
	tk := b.ticket(claim("x", 10*time.Second, true))
	now := b.clock.Now()
	second := int64(1_000_000)
	at := func(s float64) driver.Instant { return now.Add(time.Duration(s * float64(time.Second))) }
	for what, c := range map[string]struct {
		a    answer
		h    handover
		want driver.Instant // 0: ask
	}{
		"on time":                         {answer{queued: true, sent: at(-5), now: 100 * second}, handover{at: 105 * second, received: now}, at(10)},
		"a second late":                   {answer{queued: true, sent: at(-5), now: 100 * second}, handover{at: 104 * second, received: now}, at(9)},
		"half the time is over":           {answer{queued: true, sent: at(-9), now: 100 * second}, handover{at: 103 * second, received: now}, 0},
		"from before the last look":       {answer{queued: true, sent: at(-1), now: 100 * second}, handover{at: 99 * second, received: now}, 0},
		"the server's clock jumped ahead": {answer{queued: true, sent: at(-1), now: 100 * second}, handover{at: 900 * second, received: now}, at(10)},
		"the last look had no answer":     {answer{sent: at(-1)}, handover{at: 99 * second, received: now}, 0},
	} {
		g, ok := b.handedOver(tk, c.a, c.h)
		if ok != (c.want != 0) || ok && g.Until != c.want {
			t.Errorf("%s: until %v, %v", what, g.Until.Sub(now), ok)
		}
	}
}

// Row 41: connections are cut all the time under load.
func TestConnectionsCutUnderLoad(t *testing.T) {
	t.Parallel()
	r := servers.NewRedis(t, servers.RedisOptions{})
	admin := connect(t, r.Addr())
	p := front(t, r.Addr())
	ctx := within(t, 60*time.Second)
	name := freshName(t)
	stop := make(chan struct{})
	var wg, cutter sync.WaitGroup
	cutter.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
				p.Cut()
			}
		}
	})
	var mu sync.Mutex
	inside, granted, last := 0, 0, int64(0)
	end := time.Now().Add(2 * time.Second)
	var lockers []locker.Locker
	for range 6 {
		l := open(t, connect(t, p.Addr()))
		lockers = append(lockers, l, l)
	}
	for _, l := range lockers {
		wg.Go(func() {
			for time.Now().Before(end) {
				lock, err := l.Acquire(ctx, name)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if inside++; inside > 1 {
					t.Error("two holders")
				}
				if lock.Token() <= last {
					t.Errorf("token %d after %d", lock.Token(), last)
				}
				last = lock.Token()
				granted++
				inside--
				mu.Unlock()
				if err := lock.Release(ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	close(stop)
	cutter.Wait()
	nothingLeft(t, admin, name)
	if granted < 50 {
		t.Errorf("only %d acquisitions", granted)
	}
	t.Logf("%d acquisitions", granted)
}

package redis

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/seed80cd6120/locker/internal/servers"
)

// What go-redis does that a lock must survive.

// A default client returns from a call long after its deadline, and does not
// notice a cancellation at all.
func TestCallerDoesNotWaitForAClientThatHangs(t *testing.T) {
	t.Parallel()
	r := servers.SharedRedis(t)
	p := front(t, r.Addr())
	admin := connect(t, r.Addr())
	o := options(p.Addr())
	o.ReadTimeout = 20 * time.Second // the default would end calls after five seconds
	l := open(t, closing(t, goredis.NewClient(o)), lasting)
	held, name := acquire(t, l, freshName(t)), freshName(t)

	prompt := func(what string, do func(ctx context.Context) error) {
		t.Helper()
		for _, how := range []string{"deadline", "cancel"} {
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			want := context.DeadlineExceeded
			if how == "cancel" {
				ctx, cancel = context.WithCancel(context.Background())
				time.AfterFunc(100*time.Millisecond, cancel)
				want = context.Canceled
			}
			inTime := locktest.Limit(t, 200*time.Millisecond+slack)
			err := do(ctx)
			cancel()
			inTime(what + " until after its " + how)
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v in it", what, err, want)
			}
		}
	}
	p.Freeze()
	prompt("try", func(ctx context.Context) error {
		_, err := l.TryAcquire(ctx, name)
		return err
	})
	prompt("acquire", func(ctx context.Context) error {
		_, err := l.Acquire(ctx, name)
		return err
	})
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	inTime := locktest.Limit(t, 200*time.Millisecond+slack)
	if err := held.Release(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("release: %v", err)
	}
	inTime("release")
	p.Heal()
	nothingLeft(t, admin, name)
	nothingLeft(t, admin, held.Name())
}

// A client that hangs when it has to learn the servers of a Cluster does not keep its caller.
func TestClusterThatIsNotLearnt(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	b := opened(t, closing(t, goredis.NewClusterClient(&goredis.ClusterOptions{
		ClusterSlots: func(context.Context) ([]goredis.ClusterSlot, error) {
			<-hang
			return nil, errors.New("no servers")
		},
	})))
	t.Cleanup(func() { close(hang) })
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	a := locktest.BeginClaim(ctx, b, claim(freshName(t), time.Minute, true))
	locktest.Receive(t, "the end", a.Done, 20*time.Second)
	if !errors.Is(a.Err, context.DeadlineExceeded) {
		t.Error(a.Err)
	}
}

// A request whose reply was lost is sent again, and finds its own value.
func TestLostReplyOfAcquire(t *testing.T) {
	t.Parallel()
	r := servers.SharedRedis(t)
	p := front(t, r.Addr())
	admin := connect(t, r.Addr())
	client := connect(t, p.Addr())
	loaded(t, client, freshName(t))
	b := opened(t, client)
	for i := range 2 {
		c := claim(freshName(t), time.Minute, i == 1)
		p.SwallowReply(tries, 0)
		g, err := b.Acquire(within(t, 20*time.Second), c)
		if err != nil || g.Token == 0 {
			t.Fatalf("wait %v: %+v, %v", c.Wait, g, err)
		}
		must(t, b.Release(within(t, 20*time.Second), c))
		nothingLeft(t, admin, c.Name)
	}
	swallowed(t, p, 2)
}

// A release whose reply was lost did release: that is no loss.
func TestLostReplyOfRelease(t *testing.T) {
	t.Parallel()
	r := servers.SharedRedis(t)
	p := front(t, r.Addr())
	l := open(t, connect(t, p.Addr()))
	admin := connect(t, r.Addr())
	waits := open(t, admin)
	loaded(t, admin, freshName(t))
	lock := acquire(t, l, freshName(t))
	p.SwallowReply(releases, 0)
	release(t, lock)
	lock = acquire(t, l, freshName(t))
	w := wants(within(t, 60*time.Second), waits, lock.Name())
	queued(t, admin, lock.Name(), 1)
	p.SwallowReply(releases, 0)
	release(t, lock)
	release(t, w.Granted(t, slack))
	swallowed(t, p, 2)
}

// A release whose reply was lost has told the next goroutine of the same Locker.
func TestLostReplyOfHandOver(t *testing.T) {
	t.Parallel()
	r := servers.SharedRedis(t)
	admin := connect(t, r.Addr())
	p := front(t, r.Addr())
	l := open(t, connect(t, p.Addr()))
	release(t, acquire(t, l, freshName(t))) // teaches the server the script
	name := freshName(t)
	lock := acquire(t, l, name)
	w := wants(within(t, 60*time.Second), l, name)
	queued(t, admin, name, 1)

	p.SwallowReply(releases, 0)
	release(t, lock)
	swallowed(t, p, 1)
	next := w.Granted(t, 3*time.Second+slack)
	if next.Token() <= lock.Token() {
		t.Fatalf("token %d after %d", next.Token(), lock.Token())
	}
	release(t, next)
}

// go-redis resubscribes without a word. What was published in between is lost: the
// server made the waiter the holder and it was not told.
func TestMessageLost(t *testing.T) {
	t.Parallel()
	r := servers.SharedRedis(t)
	admin := connect(t, r.Addr())
	p := front(t, r.Addr())
	a, b := open(t, connect(t, r.Addr())), open(t, connect(t, p.Addr()))
	name := freshName(t)
	lock := acquire(t, a, name)
	w := wants(within(t, 60*time.Second), b, name)
	queued(t, admin, name, 1)

	p.FreezeDown()
	release(t, lock)
	queued(t, admin, name, 0) // it is the waiter's now
	p.Cut()
	p.Heal()
	next := w.Granted(t, 3*time.Second+slack)
	if next.Token() <= lock.Token() {
		t.Fatalf("token %d after %d", next.Token(), lock.Token())
	}
	release(t, next)
}

// A master that is demoted lives on and keeps the subscription, while all else goes to the new one: there a waiter joins
// only when it is told news there.
func TestSubscriptionAtTheOldMaster(t *testing.T) {
	t.Parallel()
	r1, r2 := servers.NewRedis(t, servers.RedisOptions{}), servers.NewRedis(t, servers.RedisOptions{})
	old, admin := connect(t, r1.Addr()), connect(t, r2.Addr())
	p := front(t, r1.Addr())
	b, other := opened(t, connect(t, p.Addr())), opened(t, admin)
	ctx := within(t, 2*time.Minute)
	h := claim(freshName(t), time.Hour, false)
	take(t, opened(t, old), h)
	w := claim(h.Name, time.Hour, true)
	granted := asked(t, b, w)
	queued(t, old, h.Name, 1)
	next := claim(h.Name, time.Hour, false)
	take(t, other, next)

	channel := old.PubSubChannels(ctx, DefaultPrefix+":wake:*").Val()[0]
	p.SetTarget(r2.Addr())
	old.ClientKillByFilter(ctx, "TYPE", "normal")
	old.Publish(ctx, channel, "look "+w.ID)
	queued(t, admin, h.Name, 1)
	if n := admin.PubSubNumSub(ctx, channel).Val()[channel]; n != 1 {
		t.Errorf("%d subscriptions at the new master", n)
	}
	free(t, other, next)
	soon(t, granted)
	free(t, b, w)
}

// The subscriptions are killed while names go from hand to hand.
func TestSubscriptionsKilled(t *testing.T) {
	t.Parallel()
	r := servers.NewRedis(t, servers.RedisOptions{})
	admin := connect(t, r.Addr())
	var lockers []locker.Locker
	for range 4 {
		lockers = append(lockers, open(t, connect(t, r.Addr())))
	}
	name := freshName(t)
	ctx := within(t, 10*time.Minute)
	killing, stop := context.WithCancel(ctx)
	defer stop()
	killed := make(chan int, 1)
	var turns atomic.Int64
	go func() {
		n := 0
		for {
			select {
			case <-killing.Done():
				killed <- n
				return
			case <-time.After(20 * time.Millisecond):
				// A late machine needs longer to subscribe and to wait.
				done := turns.Load()
				for wait := time.Now().Add(10 * time.Second); turns.Load() == done && time.Now().Before(wait); {
					time.Sleep(time.Millisecond)
				}
				k, _ := admin.ClientKillByFilter(ctx, "TYPE", "pubsub").Result()
				n += int(k)
			}
		}
	}()
	var last int64
	longest := time.Duration(0)
	for i := range 100 {
		began := time.Now()
		lock := acquire(t, lockers[i%4], name)
		longest = max(longest, time.Since(began))
		if lock.Token() <= last {
			t.Fatalf("token %d after %d", lock.Token(), last)
		}
		last = lock.Token()
		next := wants(ctx, lockers[(i+1)%4], name)
		if i%3 == 0 {
			queued(t, admin, name, 1)
		}
		release(t, lock)
		last = max(last, next.Granted(t, 20*time.Second).Token())
		release(t, next.Value)
		turns.Add(1)
	}
	stop()
	if n := <-killed; n == 0 {
		t.Error("no subscription was killed")
	}
	t.Logf("longest wait %v", longest)
}

// A subscription that is flooded loses nothing.
func TestFloodedSubscription(t *testing.T) {
	t.Parallel()
	r := servers.NewRedis(t, servers.RedisOptions{})
	admin := connect(t, r.Addr())
	a, b := open(t, connect(t, r.Addr())), open(t, connect(t, r.Addr()))
	name := freshName(t)
	lock := acquire(t, a, name)
	w := wants(within(t, 60*time.Second), b, name)
	queued(t, admin, name, 1)
	channels, err := admin.PubSubChannels(context.Background(), DefaultPrefix+":wake:*").Result()
	if err != nil || len(channels) != 1 {
		t.Fatal(channels, err)
	}
	for range 20 {
		pipe := admin.Pipeline()
		for range 1000 {
			pipe.Publish(context.Background(), channels[0], "nonsense")
		}
		if _, err := pipe.Exec(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	release(t, lock)
	release(t, w.Granted(t, slack))
}

// The server forgets the scripts: requests fall back to their text, also those
// that go together.
func TestScriptFlush(t *testing.T) {
	t.Parallel()
	r := servers.NewRedis(t, servers.RedisOptions{})
	admin := connect(t, r.Addr())
	a, b := open(t, connect(t, r.Addr()), locker.WithTTL(30*time.Second)), open(t, connect(t, r.Addr()))
	var held []*locker.Lock
	for range 200 {
		held = append(held, acquire(t, a, freshName(t)))
	}
	name := freshName(t)
	lock := acquire(t, a, name)
	w := wants(within(t, 2*time.Minute), b, name)
	queued(t, admin, name, 1)
	renewed := renewal(t, held...)
	eventually.Is(t, "all renewed", func() bool {
		must(t, admin.ScriptFlush(context.Background()).Err())
		return renewed()
	})
	release(t, lock)
	release(t, w.Granted(t, slack))
}

// A process that is gone is passed over, although its entry is still in the
// queue, and although somebody subscribed to all channels.
func TestDeadWaiterIsPassedOver(t *testing.T) {
	t.Parallel()
	r := servers.NewRedis(t, servers.RedisOptions{})
	admin := connect(t, r.Addr())
	nosy := closing(t, admin.PSubscribe(context.Background(), "*"))
	if _, err := nosy.Receive(context.Background()); err != nil {
		t.Fatal(err)
	}
	a, b := open(t, connect(t, r.Addr()), lasting), open(t, connect(t, r.Addr()), lasting)
	name := freshName(t)
	lock := acquire(t, a, name)
	dead := fmt.Sprintf("1 %s 0 %d %d 60000 1795452569961814 %s:wake:0123456789abcdef dead:1", claim(name, 0, true).ID, driver.All, driver.All, DefaultPrefix)
	for range 3 {
		must(t, admin.RPush(context.Background(), queueKey(name), dead).Err())
	}
	w := wants(within(t, 60*time.Second), b, name)
	queued(t, admin, name, 4)
	release(t, lock)
	release(t, w.Granted(t, slack))
	nothingLeft(t, admin, name)
}

// It is passed over also while others hold the name, by those who can hold it beside them.
func TestDeadWaiterIsPassedOverBesideHolders(t *testing.T) {
	t.Parallel()
	addr := servers.SharedRedis(t).Addr()
	admin := connect(t, addr)
	b := opened(t, admin)
	for what, shares := range map[string][][2]int32{ // of who holds it, of some who wait, of the dead one, and of the next
		"readers": {{1, driver.All}, {driver.All, driver.All}, {1, driver.All}},
		"permits": {{2, 3}, {3, 3}, {1, 3}},
		"mixed":   {{2, 3}, {2, 3}, {driver.All, driver.All}, {1, driver.All}},
	} {
		for _, try := range []bool{false, true} {
			t.Run(fmt.Sprint(what, " try=", try), func(t *testing.T) {
				name := freshName(t)
				last := len(shares) - 1
				of := func(i int) *driver.Claim { return permits(name, shares[i][0], shares[i][1]) }
				h := of(0)
				h.TTL = 24 * time.Hour
				take(t, b, h)
				var waiting []*locktest.Acquisition[driver.Grant]
				for i := 1; i < last-1; i++ {
					waiting = append(waiting, asked(t, b, of(i)))
					queued(t, admin, name, int64(i))
				}
				gone, dead := opened(t, connect(t, addr)), of(last-1)
				dead.TTL = time.Second
				c := gone.Claim(dead)
				gone.Join(c, func(redisnode.Answer) {})
				if a, err := gone.Node.Acquire(within(t, time.Minute), c, redisnode.Queue); err != nil || a.Granted {
					t.Fatalf("%+v, %v", a, err)
				}
				die := func() { locktest.Must(t, gone.Close(within(t, time.Minute))) }
				next := of(last)
				if try {
					die()
					eventually.Within(t, 20*time.Second, "a try behind the dead one succeeds", func() bool { // after a minute the queue is gone
						next = of(last)
						_, err := b.Acquire(within(t, time.Minute), next)
						return err == nil
					})
				} else {
					granted := asked(t, b, next)
					queued(t, admin, name, int64(last))
					die()
					granted.Granted(t, dead.TTL+time.Second+slack)
				}
				free(t, b, next)
				free(t, b, h)
				for _, w := range waiting {
					soon(t, w)
					free(t, b, w.Claim)
				}
				nothingLeft(t, admin, name)
			})
		}
	}
}

// What was put into a queue by hand, and is no waiter, is in nobody's way.
func TestNonsenseInTheQueue(t *testing.T) {
	t.Parallel()
	r := servers.SharedRedis(t)
	admin := connect(t, r.Addr())
	name := freshName(t)
	b := opened(t, connect(t, r.Addr())) // without the core, which would release once more
	c := claim(name, time.Minute, false)
	if _, err := b.Acquire(within(t, 20*time.Second), c); err != nil {
		t.Fatal(err)
	}
	w := wants(within(t, 60*time.Second), open(t, connect(t, r.Addr()), lasting), name)
	queued(t, admin, name, 1)
	admin.LPush(context.Background(), queueKey(name), "nonsense")
	if err := b.Release(within(t, 20*time.Second), c); err != nil {
		t.Error(err)
	}
	release(t, w.Granted(t, slack))
	nothingLeft(t, admin, name)
}

// A name that is given to a claim which is over, because the queue is of yesterday, is
// passed on at once.
func TestHandOverToAClaimThatIsOver(t *testing.T) {
	t.Parallel()
	r := servers.SharedRedis(t)
	admin := connect(t, r.Addr())
	a, b := open(t, connect(t, r.Addr())), open(t, connect(t, r.Addr()))
	name := freshName(t)

	lock := acquire(t, a, name)
	w := wants(within(t, 60*time.Second), b, name)
	queued(t, admin, name, 1)
	entry, err := admin.LIndex(context.Background(), queueKey(name), 0).Result()
	must(t, err)
	release(t, lock)
	release(t, w.Granted(t, slack))

	lock = acquire(t, a, name)
	must(t, admin.RPush(context.Background(), queueKey(name), entry).Err())
	other := connect(t, r.Addr())
	w = wants(within(t, 60*time.Second), open(t, other), name)
	queued(t, admin, name, 2)
	release(t, lock)
	release(t, w.Granted(t, slack))
}

// A client whose maintenance notifications are left on, as they are by default, works with
// a server that does not know them.
func TestMaintenanceNotifications(t *testing.T) {
	t.Parallel()
	r := servers.SharedRedis(t)
	admin := connect(t, r.Addr())
	usual := func() locker.Locker {
		return open(t, closing(t, goredis.NewClient(&goredis.Options{Addr: r.Addr()})))
	}
	a, b := usual(), usual()
	name := freshName(t)
	lock := acquire(t, a, name)
	w := wants(within(t, 20*time.Second), b, name)
	queued(t, admin, name, 1)
	release(t, lock)
	release(t, w.Granted(t, slack))
}

// The clients that are made for a URL ask for no maintenance notifications, as clients of go-redis do by default.
func TestNoMaintenanceNotificationsByURL(t *testing.T) {
	t.Parallel()
	const word = "maint_notifications"
	r := servers.SharedRedis(t)
	ctx := within(t, 2*time.Minute)
	p, sent := locktest.Recording(t, r.Addr())
	usual := closing(t, goredis.NewClient(&goredis.Options{Addr: p.Addr()}))
	eventually.Is(t, "a client of go-redis asks for them", func() bool { usual.Ping(ctx); return sent(word) })
	// What a client asks when it has connected. The server is none of a Cluster, and says so to who asks it for the others.
	for scheme, asked := range map[string]string{"redis": "evalsha", "redis+cluster": "cluster"} {
		p, sent := locktest.Recording(t, r.Addr())
		l, err := locker.Open(ctx, scheme+"://"+p.Addr())
		must(t, err)
		locktest.CloseAfter(t, l.Close)
		eventually.Is(t, scheme+": the server is asked", func() bool {
			if lock, err := l.TryAcquire(ctx, freshName(t)); err == nil {
				release(t, lock)
			}
			return sent(asked)
		})
		if sent(word) {
			t.Errorf("%s: the client asks for maintenance notifications", scheme)
		}
	}
}

// A Ring, and no client at all, are refused without asking anybody.
func TestNewRefuses(t *testing.T) {
	var nobody *goredis.Client
	for what, try := range map[string]func() (locker.Locker, error){
		"nil":         func() (locker.Locker, error) { return New(nil) },
		"nil *Client": func() (locker.Locker, error) { return New(nobody) },
		"Ring": func() (locker.Locker, error) {
			return New(closing(t, goredis.NewRing(&goredis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})))
		},
		"AutoPipeliner": func() (locker.Locker, error) {
			pipeline, err := connect(t, "127.0.0.1:1").AsyncAutoPipeline()
			if err != nil {
				return nil, err
			}
			return New(closing(t, pipeline))
		},
		"empty prefix": func() (locker.Locker, error) { return New(idle(t), WithPrefix("")) },
		"braces":       func() (locker.Locker, error) { return New(idle(t), WithPrefix("a{}b")) },
		"long prefix":  func() (locker.Locker, error) { return New(idle(t), WithPrefix(strings.Repeat("x", 101))) },
		"option of a driver": func() (locker.Locker, error) {
			return New(idle(t), locker.BackendOption(func(*int) error { return nil }))
		},
	} {
		if l, err := try(); l != nil || !errors.Is(err, locker.ErrInvalidOption) {
			t.Errorf("%s: %v, %v", what, l, err)
		}
	}
}

// A waiter for which no connection can be made to be told on takes the name when it is free.
func TestWaiterThatCannotBeTold(t *testing.T) {
	addr := servers.SharedRedis(t).Addr()
	p := front(t, addr)
	o := options(p.Addr())
	o.DialTimeout, o.ReadTimeout = 3*time.Second, 3*time.Second
	o.OnConnect = func(context.Context, *goredis.Conn) error { return nil } // no request is sent in place, with less patience
	l, holder := open(t, closing(t, goredis.NewClient(o))), open(t, connect(t, addr))
	release(t, acquire(t, l, t.Name()))
	lock := acquire(t, holder, t.Name())
	p.BlackHole() // for new connections
	known := p.Stats().Open
	a := wants(t.Context(), l, t.Name())
	eventually.Is(t, "it tries to be told", func() bool { return p.Stats().Open > known })
	release(t, lock)
	release(t, a.Granted(t, time.Minute))
}

// idle is a client of a server that does not exist.
func idle(t testing.TB) goredis.UniversalClient { return connect(t, "127.0.0.1:1") }

package redlock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/leaks"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/servers"
)

func TestNewRefuses(t *testing.T) {
	nowhere := connect(t, "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3")
	var none *goredis.Client
	cluster := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: []string{"127.0.0.1:4"}})
	t.Cleanup(func() { _ = cluster.Close() })
	for name, try := range map[string]func() (locker.Locker, error){
		"no client":  func() (locker.Locker, error) { return New(nil) },
		"nil client": func() (locker.Locker, error) { return New([]goredis.UniversalClient{nowhere[0], nil, nowhere[1]}) },
		"typed nil":  func() (locker.Locker, error) { return New([]goredis.UniversalClient{nowhere[0], none, nowhere[1]}) },
		"one twice": func() (locker.Locker, error) {
			return New([]goredis.UniversalClient{nowhere[0], nowhere[1], nowhere[0]})
		},
		"one server":   func() (locker.Locker, error) { return New(append(connect(t, "127.0.0.1:1"), nowhere...)) },
		"cluster":      func() (locker.Locker, error) { return New([]goredis.UniversalClient{nowhere[0], cluster, nowhere[1]}) },
		"empty prefix": func() (locker.Locker, error) { return New(nowhere, WithPrefix("")) },
		"brace":        func() (locker.Locker, error) { return New(nowhere, WithPrefix("a{b")) },
		"no time":      func() (locker.Locker, error) { return New(nowhere, WithNodeTimeout(0)) },
		"TTL":          func() (locker.Locker, error) { return New(nowhere, locker.WithTTL(time.Microsecond)) },
		"other backend": func() (locker.Locker, error) {
			return New(nowhere, locker.BackendOption(func(*int) error { return nil }))
		},
	} {
		if _, err := try(); !errors.Is(err, locker.ErrInvalidOption) {
			t.Errorf("%s: got %v, want ErrInvalidOption", name, err)
		}
	}
	l, err := New(nowhere) // and does not talk to them
	must(t, err)
	must(t, l.Close(within(t, time.Minute)))
}

// The clients that are made for a URL ask for no maintenance notifications, as clients of go-redis do by default: see the test of
// package redis.
func TestNoMaintenanceNotificationsByURL(t *testing.T) {
	t.Parallel()
	var fronts []string
	var sent []func(string) bool
	for _, addr := range five(t)[:3] {
		p, of := locktest.Recording(t, addr)
		fronts, sent = append(fronts, p.Addr()), append(sent, of)
	}
	l, err := locker.Open(within(t, 2*time.Minute), "redlock://"+strings.Join(fronts, ","))
	must(t, err)
	locktest.CloseAfter(t, l.Close)
	release(t, locktest.Acquire(t, l, t.Name()))
	asked := 0
	for i := range sent {
		if sent[i]("evalsha") {
			asked++
		}
		if sent[i]("maint_notifications") {
			t.Errorf("the client of node %d asks for maintenance notifications", i)
		}
	}
	if asked < 2 {
		t.Errorf("%d nodes were asked by the proxies: the test shows nothing", asked)
	}
}

func TestNumbersOfNodes(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{1: "warns", 2: "warns", 3: "", 4: "warns", 5: ""} {
		var log eventually.Output
		l := open(t, five(t)[:n], locker.WithLogger(slog.New(slog.NewTextHandler(&log, nil))), WithNodeTimeout(10*time.Second))
		other := open(t, five(t)[:n], WithNodeTimeout(10*time.Second))
		name := fmt.Sprint(t.Name(), n)
		var last int64
		for range 5 {
			lock, err := l.Acquire(within(t, time.Minute), name)
			must(t, err)
			if lock.Token() <= last {
				t.Errorf("%d nodes: token %d after %d", n, lock.Token(), last)
			}
			last = lock.Token()
			if _, err := other.TryAcquire(within(t, time.Minute), name); !errors.Is(err, locker.ErrNotAcquired) {
				t.Errorf("%d nodes: got %v, want ErrNotAcquired", n, err)
			}
			release(t, lock)
			l, other = other, l
		}
		warned := func() bool { return strings.Contains(log.String(), "odd number") }
		if want != "" {
			eventually.Is(t, "it is logged", warned)
		} else if warned() {
			t.Errorf("%d nodes: logged %q", n, log.String())
		}
	}
}

func TestWithoutFencing(t *testing.T) {
	t.Parallel()
	slow := WithNodeTimeout(10 * time.Second)
	bare, fenced := open(t, five(t), WithoutFencing(), slow), open(t, five(t), slow)
	for range 10 {
		a, err := bare.Acquire(within(t, time.Minute), t.Name())
		must(t, err)
		if a.Token() != 0 {
			t.Errorf("token %d", a.Token())
		}
		if _, err := fenced.TryAcquire(within(t, time.Minute), t.Name()); !errors.Is(err, locker.ErrNotAcquired) {
			t.Errorf("got %v, want ErrNotAcquired", err)
		}
		got := make(chan *locker.Lock, 1)
		go func() {
			b, err := fenced.Acquire(within(t, time.Minute), t.Name())
			if err != nil {
				t.Error(err)
			}
			got <- b
		}()
		release(t, a)
		b := <-got
		if b == nil || b.Token() == 0 {
			t.Fatal("no token")
		}
		release(t, b)
	}
}

// What stays on a server does not grow with the names that were used.
func TestClocksAreBounded(t *testing.T) {
	nodes := addrs(servers.NewRedisSet(t, 3, servers.RedisOptions{}))
	l := open(t, nodes, locker.WithTTL(10*time.Minute)) // longer than is waited for what is left
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			for i := range 150 {
				lock, err := l.Acquire(context.Background(), fmt.Sprint(t.Name(), " ", g, " ", i))
				if err == nil {
					err = locktest.Freed(context.Background(), lock)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	keys(t, nodes, 0, time.Minute)
	must(t, l.Close(within(t, 10*time.Second)))
	for _, c := range connect(t, nodes...) {
		keys, err := c.Keys(within(t, 10*time.Second), "*").Result()
		must(t, err)
		clocks := 0
		for _, k := range keys {
			switch {
			case strings.HasSuffix(k, ":clock"):
				clocks++
			case !strings.Contains(k, ":gone:"): // they go by themselves
				t.Errorf("left: %q", k)
			}
		}
		if clocks == 0 || clocks > 256 {
			t.Errorf("%d clocks", clocks)
		}
	}
}

func TestCloseLeavesNoGoroutine(t *testing.T) {
	nodes := five(t)
	clients := connect(t, nodes...)
	for _, c := range clients { // what go-redis keeps for a client is not ours
		must(t, c.Ping(context.Background()).Err())
	}
	before := goleak.IgnoreCurrent()
	a, err := New(clients)
	must(t, err)
	b, err := New(clients)
	must(t, err)
	lock, err := a.Acquire(within(t, time.Minute), t.Name())
	must(t, err)
	got := make(chan error, 1)
	go func() {
		_, err := b.Acquire(within(t, time.Minute), t.Name())
		got <- err
	}()
	time.Sleep(20 * time.Millisecond) // waiting or about to wait: both are to end
	must(t, b.Close(within(t, 10*time.Second)))
	if err := <-got; !errors.Is(err, locker.ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
	release(t, lock)
	must(t, a.Close(within(t, 10*time.Second)))
	must(t, leaks.Find(before))
}

// 200 locks are more than one script renews.
func TestManyAreRenewed(t *testing.T) {
	b := newDriver(t, five(t))
	ctx := within(t, 10*time.Minute)
	var claims []*driver.Claim
	for i := range 200 {
		c := driverClaim(fmt.Sprint(t.Name(), i), 10*time.Minute, false)
		_, err := b.Acquire(ctx, c)
		must(t, err)
		claims = append(claims, c)
	}
	seen := make(map[*driver.Claim]bool)
	b.Renew(ctx, claims, func(c *driver.Claim, until driver.Instant, err error) {
		if err != nil || seen[c] || until <= b.clock.Now().Add(5*time.Minute) {
			t.Errorf("%s: %v %v", c.Name, until, err)
		}
		seen[c] = true
	})
	if len(seen) != len(claims) {
		t.Errorf("%d of %d reported", len(seen), len(claims))
	}
	for _, c := range claims {
		must(t, b.Release(ctx, c))
	}
}

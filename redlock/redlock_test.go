package redlock

import (
	"bytes"
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
	must(t, l.Close(within(t, time.Second)))
}

func TestNumbersOfNodes(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{1: "warns", 2: "warns", 3: "", 4: "warns", 5: ""} {
		var log bytes.Buffer
		l := open(t, five(t)[:n], locker.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		if warned := strings.Contains(log.String(), "odd number"); warned != (want != "") {
			t.Errorf("%d nodes: logged %q", n, &log)
		}
		other := open(t, five(t)[:n])
		name := fmt.Sprint(t.Name(), n)
		var last int64
		for range 5 {
			lock, err := l.Acquire(within(t, 10*time.Second), name)
			must(t, err)
			if lock.Token() <= last {
				t.Errorf("%d nodes: token %d after %d", n, lock.Token(), last)
			}
			last = lock.Token()
			if _, err := other.TryAcquire(within(t, 10*time.Second), name); !errors.Is(err, locker.ErrNotAcquired) {
				t.Errorf("%d nodes: got %v, want ErrNotAcquired", n, err)
			}
			must(t, lock.Release(context.Background()))
			l, other = other, l
		}
	}
}

func TestWithoutFencing(t *testing.T) {
	t.Parallel()
	bare, fenced := open(t, five(t), WithoutFencing()), open(t, five(t))
	for range 10 {
		a, err := bare.Acquire(within(t, 10*time.Second), t.Name())
		must(t, err)
		if a.Token() != 0 {
			t.Errorf("token %d", a.Token())
		}
		if _, err := fenced.TryAcquire(within(t, 10*time.Second), t.Name()); !errors.Is(err, locker.ErrNotAcquired) {
			t.Errorf("got %v, want ErrNotAcquired", err)
		}
		got := make(chan *locker.Lock, 1)
		go func() {
			b, err := fenced.Acquire(within(t, 10*time.Second), t.Name())
			if err != nil {
				t.Error(err)
			}
			got <- b
		}()
		must(t, a.Release(context.Background()))
		b := <-got
		if b == nil || b.Token() == 0 {
			t.Fatal("no token")
		}
		must(t, b.Release(context.Background()))
	}
}

// What stays on a server does not grow with the names that were used.
func TestClocksAreBounded(t *testing.T) {
	nodes := addrs(servers.NewRedisSet(t, 3, servers.RedisOptions{}))
	l := open(t, nodes)
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			for i := range 150 {
				lock, err := l.Acquire(context.Background(), fmt.Sprint("name ", g, " ", i))
				if err == nil {
					err = lock.Release(context.Background())
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
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
		if clocks == 0 || clocks > buckets {
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
	lock, err := a.Acquire(within(t, 10*time.Second), t.Name())
	must(t, err)
	got := make(chan error, 1)
	go func() {
		_, err := b.Acquire(within(t, 10*time.Second), t.Name())
		got <- err
	}()
	time.Sleep(20 * time.Millisecond) // waiting or about to wait: both are to end
	must(t, b.Close(within(t, 10*time.Second)))
	if err := <-got; !errors.Is(err, locker.ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
	must(t, lock.Release(context.Background()))
	must(t, a.Close(within(t, 10*time.Second)))
	goleak.VerifyNone(t, before)
}

func TestValue(t *testing.T) {
	nowhere := []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"}
	testValue(t, newDriver(t, nowhere), ".")
	b := newDriver(t, nowhere, WithoutFencing())
	testValue(t, b, ",")
	b.crowd.Met(true)
	testValue(t, b, ".")
}

func testValue(t *testing.T, b *backend, comma string) {
	t.Helper()
	for _, owner := range []string{"", "host:1", "a b\x00.c"} {
		dc := newDriverClaim("some name", 1234*time.Millisecond, true)
		dc.Owner = owner
		c := b.newClaim(dc, 1_763_721_350_123_456)
		want := "1763721350123456." + dc.ID + "." + b.channel + comma + "00001234 " + owner
		if c.value != want || c.head != want[:49] || c.value[fixedLen] != ' ' || channelOf(c.value) != b.channel {
			t.Errorf("got %q", c.value)
		}
		again := b.reclaim(c.value[:fixedLen], dc.Name)
		if again.ID != dc.ID || again.lock != c.lock || again.head != c.head || again.gone != c.gone {
			t.Errorf("got %+v, want %+v", again, c)
		}
		for text, token := range map[string]int64{"?": 0, "42": 42} {
			want := ring{fixed: c.value[:fixedLen], name: dc.Name, token: token}
			if got, ok := parseRing(text + " " + want.fixed + " " + c.lock); !ok || got != want {
				t.Errorf("got %+v %v, want %+v", got, ok, want)
			}
		}
	}
	fixed := strings.Repeat("0", headLen) + "." + strings.Repeat("0", fixedLen-headLen-1)
	for _, text := range []string{"", "x", "1 2 3 4", "? " + fixed, "? " + fixed + " elsewhere", "one " + fixed + " a:{0}:lock:b", "? " + strings.Repeat("x", 80) + " a:{0}:lock:b"} {
		if r, ok := parseRing(text); ok {
			t.Errorf("%q was taken for %+v", text, r)
		}
	}
}

func TestBucketsAreAlike(t *testing.T) {
	var n [buckets]int
	for i := range 100 * buckets {
		n[bucketOf(fmt.Sprint("orders/", i))]++
	}
	for b, k := range n {
		if k < 50 || k > 160 {
			t.Errorf("bucket %d has %d of %d names", b, k, 100*buckets)
		}
	}
	if got := lockKey("orders/42"); got != "redlock:{"+bucketText(bucketOf("orders/42"))+"}:lock:orders/42" {
		t.Errorf("got %q", got)
	}
}

func TestGuesses(t *testing.T) {
	k := tokens{start: time.Now()}
	if k.guess() != 0 {
		t.Error("a guess out of nothing")
	}
	now := time.Now().UnixMicro()
	k.refused(0, 0, now)
	first := k.guess()
	if first <= now || first > now+tooFar {
		t.Errorf("guess %d at %d", first, now)
	}
	// Somebody guesses higher: follow, but do not overtake by far.
	k.refused(first, first+20_000, now)
	if g := k.guess(); g < first+20_000 || g > first+tooFar/2 {
		t.Errorf("guess %d after %d was seen", g, first+20_000)
	}
	// Our idea of the time is far too high: give it up.
	k.time += 10 * tooFar
	k.refused(k.guess(), 0, now)
	if g := k.guess(); g > now+tooFar {
		t.Errorf("guess %d at %d", g, now)
	}
}

// 300 locks are more than one script renews.
func TestManyAreRenewed(t *testing.T) {
	b := newDriver(t, five(t))
	ctx := within(t, 60*time.Second)
	var claims []*driver.Claim
	for i := range maxKeys + 44 {
		c := newDriverClaim(fmt.Sprint(t.Name(), i), 20*time.Second, false)
		_, err := b.Acquire(ctx, c)
		must(t, err)
		claims = append(claims, c)
	}
	seen := make(map[*driver.Claim]bool)
	b.Renew(ctx, claims, func(c *driver.Claim, until driver.Instant, err error) {
		if err != nil || seen[c] || until <= b.clock.Now().Add(10*time.Second) {
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

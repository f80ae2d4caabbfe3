package redisnode

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/servers"
)

var (
	must   = locktest.Must
	within = locktest.Within
)

func connect(t testing.TB, addr string) *goredis.Client {
	t.Helper()
	client := goredis.NewClient(&goredis.Options{Addr: addr}).WithTimeout(20 * time.Second) // no late answer has a request sent again
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func open(t testing.TB, client goredis.UniversalClient) *Node {
	t.Helper()
	n, err := Open(client, Options{Prefix: "locker", Clock: locker.SystemClock(), Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := n.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return n
}

func (n *Node) exclusive(name string) *Claim {
	var id [16]byte
	_, _ = rand.Read(id[:])
	c := n.Claim(&driver.Claim{
		Name: name, ID: hex.EncodeToString(id[:]), Owner: "me", Weight: driver.All, Limit: driver.All, TTL: 10 * time.Second,
	})
	c.State = c
	return c
}

// ask sends a request to acquire as the network may deliver it late: one that is meant until latest.
func (n *Node) ask(t testing.TB, c *Claim, latest int64) int64 {
	t.Helper()
	return n.askAs(t, c, latest, Queue)
}

// askAs sends a request to acquire although the claim may not be Ready.
func (n *Node) askAs(t testing.TB, c *Claim, latest int64, how How) int64 {
	t.Helper()
	answer, _, err := n.run(within(t, 20*time.Second), n.scripts.acquire, []string{c.lock, c.queue, c.clock, c.gone},
		c.entry(), latest, 0, string(how), n.opts.ByAge)
	must(t, err)
	list, _ := numbers(answer, 4)
	return list[0]
}

// A request that the network has kept back has no effect when it arrives after the claim was given up or
// released, however late.
func TestLateRequests(t *testing.T) {
	n := open(t, connect(t, servers.SharedRedis(t).Addr()))
	ctx := within(t, 20*time.Second)
	for what, end := range map[string]func(*Claim) error{
		"given up": func(c *Claim) error { return n.Abandon(ctx, c.Claim) },
		"released": func(c *Claim) error {
			if _, err := n.Acquire(ctx, c, Try); err != nil {
				return err
			}
			return n.Release(ctx, c.Claim)
		},
	} {
		c := n.exclusive(t.Name())
		c.LateUntil, c.Touched = n.Time()+time.Minute.Microseconds(), true // as after a request without an answer
		must(t, end(c))
		if v := n.ask(t, c, c.LateUntil); v != -1 {
			t.Errorf("%s: a late request was answered %d", what, v)
		}
		n.client.Del(ctx, c.gone)
		if v := n.ask(t, c, n.Time()-time.Second.Microseconds()); v != -2 {
			t.Errorf("%s: a request that is too late was answered %d", what, v)
		}
		if n := n.client.Exists(ctx, c.lock, c.queue).Val(); n != 0 {
			t.Errorf("%s: something was left", what)
		}
	}
}

// A request of a claim that was released arrives while the name stays taken, which it does not lengthen.
func TestLateRequestWhileLingering(t *testing.T) {
	n := open(t, connect(t, servers.SharedRedis(t).Addr()))
	ctx := within(t, 20*time.Second)
	c := n.exclusive(t.Name())
	_, err := n.Acquire(ctx, c, Try)
	must(t, err)
	c.LateUntil = n.Time() + time.Minute.Microseconds() // as after a request without an answer
	must(t, n.Linger(ctx, c.Claim, 10*time.Minute))
	if v := n.ask(t, c, c.LateUntil); v != -1 {
		t.Errorf("a late request was answered %d", v)
	}
	n.client.Del(ctx, c.lock, c.gone)
}

// A server whose clock is ahead of our guess costs one request more, once; one whose clock is behind costs none.
func TestServerTimeDiffers(t *testing.T) {
	for off, more := range map[time.Duration]int64{-time.Hour: 1, time.Hour: 0} {
		client := connect(t, servers.SharedRedis(t).Addr())
		var requests atomic.Int64
		client.AddHook(hook{func() { requests.Add(1) }})
		n := open(t, client)
		takeAndRelease(t, n) // connects, and has the server know the scripts
		n.time.Learn(n.Time()+off.Microseconds(), n.clock.Now())
		for _, want := range []int64{2 + more, 2} {
			before := requests.Load()
			takeAndRelease(t, n)
			if got := requests.Load() - before; got != want {
				t.Errorf("a guess that is off by %v: %d requests, want %d", off, got, want)
			}
		}
	}
}

// A token that is proposed is given if it is greater than all others and not far ahead. A holder gets it, or a
// greater one, however far ahead it is.
func TestProposedTokens(t *testing.T) {
	client := connect(t, servers.NewRedis(t, servers.RedisOptions{}).Addr())
	n := open(t, client)
	ctx := within(t, 2*time.Minute)
	for what, row := range map[string]struct {
		ahead int64
		given bool
	}{"a little ahead": {500_000, true}, "far ahead": {1e9, false}, "past": {-1e6, false}} {
		var c *Claim
		var a Answer
		ask := func(proposed int64) (Answer, error) {
			c.Proposed = proposed
			return n.Acquire(ctx, c, Try)
		}
		for {
			must(t, client.FlushAll(ctx).Err()) // the tokens given before, too
			c = n.exclusive(t.Name() + what)
			begun := n.Time()
			proposed := begun + row.ahead
			var err error
			a, err = ask(proposed)
			if row.given && err == nil && n.Time() > proposed { // the machine is late: the time is no longer ahead
				continue
			}
			if err == nil && c.LateUntil != 0 { // the request was sent again, perhaps as one of a holder
				continue
			}
			if err != nil || (a.Token == proposed) != row.given || a.Token < begun-1e6 {
				t.Errorf("%s: %+v, %v", what, a, err)
			}
			break
		}
		further := a.Token + 2e9
		for range 2 { // repeated, it has the token still
			if a, err := ask(further); err != nil || !a.Granted || a.Token != further {
				t.Errorf("%s: %+v, %v", what, a, err)
			}
		}
		if a, err := ask(further - 5); err != nil || !a.Granted || a.Token != further {
			t.Errorf("%s: a lower one: %+v, %v", what, a, err)
		}
		if all, err := n.Look(ctx, c.Name); err != nil || len(all) != 1 || all[0].Token != further || all[0].Owner != "me" {
			t.Errorf("%s: %+v, %v", what, all, err)
		}
		c.Proposed = 0
		if err := n.Release(ctx, c.Claim); err != nil {
			t.Error(err)
		}
		next := n.exclusive(c.Name)
		if a, err := n.Acquire(ctx, next, Try); err != nil || a.Token <= further {
			t.Errorf("%s: the next: %+v, %v", what, a, err)
		}
		if err := n.Release(ctx, next.Claim); err != nil {
			t.Error(err)
		}
	}
}

// stopped is a clock at which it is always the same time.
type stopped driver.Instant

func (c stopped) Now() driver.Instant { return driver.Instant(c) }

// A grant that is told counts from when the server can have begun, and not if the waiter has heard later things.
func TestGrantThatIsToldLate(t *testing.T) {
	now := driver.Instant(time.Hour)
	n := open(t, connect(t, "127.0.0.1:1"))
	n.clock = stopped(now)
	const second = 1_000_000
	at := func(s float64) driver.Instant { return now.Add(time.Duration(s * float64(time.Second))) }
	for what, row := range map[string]struct {
		said Answer
		told int64          // when it was granted
		want driver.Instant // 0: ask
	}{
		"on time":                         {Answer{Sent: at(-5), Now: 100 * second}, 105 * second, now},
		"a second late":                   {Answer{Sent: at(-5), Now: 100 * second}, 104 * second, at(-1)},
		"from before the last look":       {Answer{Sent: at(-1), Now: 100 * second}, 99 * second, 0},
		"the server's clock jumped ahead": {Answer{Sent: at(-1), Now: 100 * second}, 900 * second, now},
		"nothing was answered":            {Answer{Sent: at(-5)}, 900 * second, at(-5)},
	} {
		c := n.exclusive(t.Name())
		var a Answer
		n.Join(c, func(told Answer) { a = told })
		c.said = row.said
		n.hear(fmt.Sprintf("granted %s 7 0 %d %s", c.ID, row.told, c.lock))
		if a.Granted != (row.want != 0) || a.Granted && (a.Sent != row.want || a.Token != 7) {
			t.Errorf("%s: %+v", what, a)
		}
	}
}

// Two prefixes, or two kinds of use of one, have no key and no channel in common.
func TestPrefixesNeverMeet(t *testing.T) {
	names := []string{"x", "lock:x", "{00}:lock:x", ":x", "x:{00}:lock:x", "queue:x", "clock", "gone:x"}
	seen := make(map[string]keys)
	for _, k := range []keys{{"a", ""}, {"a", "q"}, {"a:", ""}, {"a:lock", ""}, {"a:00", ""}, {"b", ""}, {":a", ""}} {
		must(t, CheckPrefix(k.prefix))
		for _, name := range names {
			tag := k.tag(name)
			for _, key := range []string{tag + "lock:" + name, tag + "queue:" + name, tag + "gone:" + name, tag + "clock"} {
				if other, ok := seen[key]; ok && other != k {
					t.Errorf("%q is a key of %q and of %q", key, other, k)
				}
				seen[key] = k
			}
			if found, ok := k.name(tag + "lock:" + name); !ok || found != name {
				t.Errorf("the name under %q is %q, %v", tag+"lock:"+name, found, ok)
			}
		}
	}
	for _, prefix := range []string{"", "a{", "a}", "a b", "a\nb", string(make([]byte, 101))} {
		if err := CheckPrefix(prefix); !errors.Is(err, locker.ErrInvalidOption) {
			t.Errorf("%q: %v", prefix, err)
		}
	}
}

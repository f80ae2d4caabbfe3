package redisnode

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/servers"
)

func connect(t testing.TB, addr string) *goredis.Client {
	t.Helper()
	client := goredis.NewClient(&goredis.Options{Addr: addr})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func open(t testing.TB, client goredis.UniversalClient) *Node {
	t.Helper()
	n, err := Open(client, Options{Prefix: "locker", Clock: locker.SystemClock(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
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
	return n.Claim(&driver.Claim{
		Name: name, ID: hex.EncodeToString(id[:]), Owner: "me", Weight: driver.All, Limit: driver.All, TTL: 10 * time.Second,
	})
}

func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// ask sends a request to acquire as the network may deliver it late: one that is meant until latest.
func (n *Node) ask(t testing.TB, c *Claim, latest int64) int64 {
	t.Helper()
	v, _, err := n.run(within(t, 20*time.Second), n.scripts.acquire, c.lock, []any{
		4, c.lock, c.queue, c.clock, c.gone, c.ID, c.Weight, c.Limit, 0, 10000, latest, 0, c.Owner, c.entry()})
	if err != nil {
		t.Fatal(err)
	}
	return v.([]any)[0].(int64)
}

// A request that the network has kept back has no effect when it arrives after the claim was given up or
// released, however late.
func TestLateRequests(t *testing.T) {
	n := open(t, connect(t, servers.SharedRedis(t).Addr()))
	ctx := within(t, 20*time.Second)
	for what, end := range map[string]func(*Claim) error{
		"given up": func(c *Claim) error { return n.Abandon(ctx, c) },
		"released": func(c *Claim) error {
			if _, err := n.Acquire(ctx, c, false, 0); err != nil {
				return err
			}
			return n.Release(ctx, c, 0, 0)
		},
	} {
		c := n.exclusive(t.Name())
		c.stray, c.touched = n.time.latest(n.clock.Now()), true // as after a request without an answer
		if err := end(c); err != nil {
			t.Fatal(err)
		}
		if v := n.ask(t, c, c.stray); v != -1 {
			t.Errorf("%s: a late request was answered %d", what, v)
		}
		n.client.Del(ctx, c.gone)
		if v := n.ask(t, c, n.time.at(n.clock.Now())-time.Second.Microseconds()); v != -2 {
			t.Errorf("%s: a request that is too late was answered %d", what, v)
		}
		if n := n.client.Exists(ctx, c.lock, c.queue).Val(); n != 0 {
			t.Errorf("%s: something was left", what)
		}
	}
}

// A server whose clock differs from ours costs one request more, once.
func TestServerTimeDiffers(t *testing.T) {
	for _, off := range []time.Duration{-time.Hour, time.Hour} {
		n := open(t, connect(t, servers.SharedRedis(t).Addr()))
		n.time.ahead.Add(off.Microseconds())
		ctx := within(t, 20*time.Second)
		for range 2 {
			c := n.exclusive(t.Name())
			if a, err := n.Acquire(ctx, c, false, 0); err != nil || !a.Granted {
				t.Fatalf("off by %v: %+v, %v", off, a, err)
			}
			if err := n.Release(ctx, c, 0, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A token that is proposed is given if it is greater than all others and not far ahead; settled is
// one only for a holder, and above all others.
func TestProposedAndSettledTokens(t *testing.T) {
	n := open(t, connect(t, servers.SharedRedis(t).Addr()))
	ctx := within(t, 20*time.Second)
	now := func() int64 { return n.time.at(n.clock.Now()) }
	for what, row := range map[string]struct {
		proposed int64
		given    bool
	}{"a little ahead": {now() + 500_000, true}, "far ahead": {now() + 1e9, false}, "past": {now() - 1e6, false}} {
		c := n.exclusive(t.Name() + what)
		a, err := n.Acquire(ctx, c, false, row.proposed)
		if err != nil || (a.Token == row.proposed) != row.given || a.Token < now()-1e6 {
			t.Errorf("%s: %+v, %v", what, a, err)
		}
		for range 2 { // repeated, it is settled still
			if ok, clock, err := n.Settle(ctx, c, a.Token+10, 0); err != nil || !ok || clock != a.Token+10 {
				t.Errorf("%s: settled %v at %d, %v", what, ok, clock, err)
			}
		}
		if ok, clock, err := n.Settle(ctx, c, a.Token+5, 0); err != nil || ok || clock != a.Token+10 {
			t.Errorf("%s: a lower one settled %v at %d, %v", what, ok, clock, err)
		}
		if all, err := n.Look(ctx, c.Name); err != nil || len(all) != 1 || all[0].Token != a.Token+10 || all[0].Owner != "me" {
			t.Errorf("%s: %+v, %v", what, all, err)
		}
		if err := n.Release(ctx, c, 0, 0); err != nil {
			t.Error(err)
		}
		if _, _, err := n.Settle(ctx, c, a.Token+100, 0); !errors.Is(err, driver.ErrGone) {
			t.Errorf("%s: of one that holds nothing: %v", what, err)
		}
	}
}

// Two prefixes, or two kinds of use of one, have no key and no channel in common.
func TestPrefixesNeverMeet(t *testing.T) {
	names := []string{"x", "lock:x", "{00}:lock:x", ":x", "x:{00}:lock:x", "queue:x", "clock", "gone:x"}
	seen := make(map[string]keys)
	for _, k := range []keys{{"a", ""}, {"a", "q"}, {"a:", ""}, {"a:lock", ""}, {"a:00", ""}, {"b", ""}, {":a", ""}} {
		if err := CheckPrefix(k.prefix); err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			tag := k.tag(bucket(name))
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

package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/servers"
)

// TestLook: holders and waiters of all kinds, in the order of the queue.
func TestLook(t *testing.T) {
	t.Parallel()
	c := dial(t, servers.SharedEtcd(t).Addr())
	b, other := driverOf(t, c), driverOf(t, c)
	if ps, err := b.Look(t.Context(), t.Name()); err != nil || len(ps) != 0 {
		t.Errorf("nobody: %v %v", ps, err)
	}
	before := time.Now().Truncate(time.Millisecond)
	first, second, third := claimOf(t.Name(), 4, 10), claimOf(t.Name(), 6, 10), claimOf(t.Name(), 1, 10)
	second.Owner = "the second owner"
	g := take(t, b, first)
	take(t, other, second)
	granted := begin(t, b, third)
	queueHas(t, c, t.Name(), 3)
	ps, err := other.Look(t.Context(), t.Name())
	if err != nil || len(ps) != 3 {
		t.Fatal(ps, err)
	}
	for i, want := range []*driver.Claim{first, second, third} {
		p := ps[i]
		if p.Name != t.Name() || p.ID != want.ID || p.Owner != want.Owner || p.Weight != want.Weight || p.Limit != want.Limit || p.Held != (i < 2) {
			t.Errorf("%d: %+v", i, p)
		}
		if p.Held != (p.Token > 0) || p.Held != (p.Left > 0) || p.Left > lasting+5*time.Second {
			t.Errorf("%d: %+v", i, p)
		}
	}
	if ps[0].Token != g.Token || ps[0].Since.Before(before) || ps[2].Since.Before(ps[0].Since) {
		t.Errorf("%+v", ps)
	}
	release(t, b, first)
	must(t, soon(t, "the grant", granted))
	ps, err = b.Look(t.Context(), t.Name())
	if err != nil || len(ps) != 2 || !ps[1].Held || !ps[1].Since.IsZero() { // nobody knows since when
		t.Errorf("%+v %v", ps, err)
	}
}

// TestNames: the names of this prefix that begin with a text, whatever bytes they have and
// however many there are.
func TestNames(t *testing.T) {
	t.Parallel()
	c := dial(t, servers.SharedEtcd(t).Addr())
	b := driverOf(t, c, WithPrefix(t.Name()))
	hold(t, driverOf(t, c, WithPrefix(t.Name()+"/a")), "elsewhere")
	want := []string{"...", "..", ".a", "a", "a/b", "a/b/c", "a%2Fb", "a#", "b", "\x00\xff", "ä"}
	for _, name := range want {
		hold(t, b, name)
	}
	begin(t, b, claim("a", true))
	eventually.Is(t, "queue", func() bool { ps, err := b.Look(t.Context(), "a"); return err == nil && len(ps) == 2 })
	names := func(prefix string) (names []string) {
		for name, err := range b.Names(t.Context(), prefix) {
			must(t, err)
			names = append(names, name)
		}
		slices.Sort(names)
		return names
	}
	for prefix, want := range map[string][]string{
		"": want, "a": {"a", "a/b", "a/b/c", "a%2Fb", "a#"}, "a/": {"a/b", "a/b/c"}, ".": {"...", "..", ".a"}, "..": {"...", ".."}, "nothing": nil, "\x00": {"\x00\xff"},
	} {
		slices.Sort(want)
		if got := names(prefix); !slices.Equal(got, want) {
			t.Errorf("names that begin with %q: %q, want %q", prefix, got, want)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range b.Names(ended, "") {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("after the end of ctx: %v", err)
		}
	}
}

// TestNamesInPages: more names than one request reads.
func TestNamesInPages(t *testing.T) {
	t.Parallel()
	c := dial(t, servers.SharedEtcd(t).Addr())
	b := driverOf(t, c, WithPrefix(t.Name()))
	const n = 2*namesAtOnce + 10
	for i := range n {
		put(t, c, b.queueOf(fmt.Sprint(i))+"x.0", "")
	}
	seen := map[string]bool{}
	for name, err := range b.Names(t.Context(), "") {
		if err != nil || seen[name] {
			t.Fatalf("%q, seen before: %v, %v", name, seen[name], err)
		}
		seen[name] = true
	}
	if len(seen) != n {
		t.Errorf("%d names, want %d", len(seen), n)
	}
}

// TestEvict: the claim with this ID goes and nobody else; a holder is told by the next Renew
// and the name passed on, a waiter queues anew.
func TestEvict(t *testing.T) {
	t.Parallel()
	c := dial(t, servers.SharedEtcd(t).Addr())
	b, other, operator := driverOf(t, c), driverOf(t, c), driverOf(t, c)
	held := hold(t, b, t.Name())
	waiter, third := claim(t.Name(), true), claim(t.Name(), true)
	granted := begin(t, other, waiter)
	queueHas(t, c, t.Name(), 2)
	thirdGranted := begin(t, operator, third)
	keys := queueHas(t, c, t.Name(), 3)
	if err := operator.Evict(t.Context(), t.Name(), claim("x", true).ID); !errors.Is(err, driver.ErrGone) {
		t.Errorf("nobody with this ID: %v", err)
	}
	byHand := operator.queueOf(t.Name()) + "by hand"
	put(t, c, byHand, "")
	if err := operator.Evict(t.Context(), t.Name(), ""); !errors.Is(err, driver.ErrGone) {
		t.Errorf("what has no ID: %v", err)
	}
	remove(t, c, byHand)
	evict(t, operator, t.Name(), waiter.ID)
	if now := keysOf(t, c, t.Name()); len(now) < 2 || now[0] != keys[0] || now[1] != keys[2] { // the waiter may be behind them again
		t.Errorf("keys %v, before the waiter was evicted %v", now, keys)
	}
	evict(t, operator, t.Name(), held.ID)
	eventually.Is(t, "telling the holder", func() bool { return len(lost(t, b, held)) == 1 })
	must(t, soon(t, "the grant of the third", thirdGranted))
	queueHas(t, c, t.Name(), 2) // the waiter is in the queue again
	release(t, operator, third)
	must(t, soon(t, "the grant of the waiter", granted))
	if err := operator.Evict(t.Context(), t.Name(), held.ID); !errors.Is(err, driver.ErrGone) {
		t.Errorf("the same again: %v", err)
	}
}

// TestEvictOnlyWhomItFound: the answer to the deletion is lost, and before it is repeated the waiter has queued anew, with the
// same ID, and been granted. It keeps the name.
func TestEvictOnlyWhomItFound(t *testing.T) {
	t.Parallel()
	e := servers.SharedEtcd(t)
	c := dial(t, e.Addr())
	b, other := driverOf(t, c), driverOf(t, c)
	held, waiter := hold(t, b, t.Name()), claim(t.Name(), true)
	granted := begin(t, other, waiter)
	keys := queueHas(t, c, t.Name(), 2)
	lost := false
	operator := impatient(driverOf(t, dialThrough(t, e.Addr(), func(ctx context.Context, _ string, req, reply any, do func(any) error) error {
		if !joins(req, t.Name()) || lost {
			return do(reply)
		}
		lost = true
		remove(t, c, keys[1])
		release(t, b, held)
		must(t, soon(t, "the grant of the waiter", granted))
		<-ctx.Done()
		return ctx.Err()
	}, nil)))
	must(t, operator.Evict(t.Context(), t.Name(), waiter.ID))
	if !lost {
		t.Error("no answer was lost")
	}
	release(t, other, waiter)
}

package etcd

import (
	"context"
	"errors"
	"go/build"
	"slices"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/servers"
)

// Each test here shows one trap that the client's own mutex steps into, or that the
// server sets, and fails where it is not handled.

// TestOwnRecipe: the locks are not made of the client's own mutex.
func TestOwnRecipe(t *testing.T) {
	p, err := build.ImportDir(".", 0)
	if err != nil {
		t.Fatal(err)
	}
	if other := "go.etcd.io/etcd/client/v3/concurrency"; slices.Contains(p.Imports, other) {
		t.Errorf("%s is imported", other)
	}
}

// TestOneKeyPerClaim: two acquisitions of one session never share a key.
func TestOneKeyPerClaim(t *testing.T) {
	t.Parallel()
	c := dial(t, servers.SharedEtcd(t).Addr())
	b := driverOf(t, c)
	name := t.Name()
	take(t, b, name)
	if _, err := b.Acquire(t.Context(), claim(name, false)); !errors.Is(err, driver.ErrTaken) {
		t.Fatalf("the second acquisition of the same session: %v, want ErrTaken", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 2 {
		go func() { _, _ = b.Acquire(ctx, claim(name, true)) }()
	}
	queued(t, c, name, 3)
}

// TestKeysAreReused: the names of keys do not grow in number with the acquisitions,
// because etcd remembers each until the next compaction and looks through all of them.
func TestKeysAreReused(t *testing.T) {
	t.Parallel()
	c := dial(t, servers.SharedEtcd(t).Addr())
	b := driverOf(t, c)
	names := map[string]bool{}
	for range 20 {
		claim := take(t, b, t.Name())
		for _, key := range under(t, c, t.Name()) {
			names[key] = true
		}
		if err := b.Release(t.Context(), claim); err != nil {
			t.Fatal(err)
		}
	}
	if len(names) != 1 {
		t.Errorf("20 acquisitions used %d keys: %v", len(names), names)
	}
}

// TestPrefixesAreIndependent: a lock on a name does not block one that it begins.
func TestPrefixesAreIndependent(t *testing.T) {
	t.Parallel()
	l := newLocker(t, dial(t, servers.SharedEtcd(t).Addr()))
	for _, name := range []string{"/p/a/b", "/p/a", "/p", "/p/", "/p/a/", "/p/ab", "!fence", "!fence/1"} {
		if _, err := l.TryAcquire(t.Context(), t.Name()+name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestReleaseComparesRevision: a key of the same name that was created later is not
// deleted, neither by a release nor by cleaning up.
func TestReleaseComparesRevision(t *testing.T) {
	t.Parallel()
	c := dial(t, servers.SharedEtcd(t).Addr())
	b := driverOf(t, c)
	held := take(t, b, t.Name())
	key := under(t, c, t.Name())[0]
	if _, err := c.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Put(t.Context(), key, "somebody else"); err != nil {
		t.Fatal(err)
	}
	if err := b.Release(t.Context(), held); !errors.Is(err, driver.ErrGone) {
		t.Errorf("release: %v, want ErrGone", err)
	}
	if err := b.Abandon(t.Context(), held); err != nil {
		t.Errorf("abandon: %v", err)
	}
	if keys := under(t, c, t.Name()); len(keys) != 1 {
		t.Errorf("the successor's key was deleted: %v", keys)
	}
	// It is not taken for one of ours either.
	if _, err := b.Acquire(t.Context(), claim(t.Name(), false)); !errors.Is(err, driver.ErrTaken) {
		t.Errorf("acquire behind a foreign key: %v, want ErrTaken", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := make(chan error, 1)
	go func() { _, err := b.Acquire(ctx, claim(t.Name(), true)); got <- err }()
	queued(t, c, t.Name(), 2)
	if _, err := c.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Error(err)
	}
}

// TestFailedTryWritesNothing: being refused costs one request and no write.
func TestFailedTryWritesNothing(t *testing.T) {
	t.Parallel()
	e := servers.NewEtcd(t, servers.EtcdOptions{})
	c := dial(t, e.Addr())
	take(t, driverOf(t, c), t.Name())
	b := driverOf(t, c)
	take(t, b, "another") // begins the session
	before, since := revision(t, c), requests(t, e)
	for range 5 {
		if _, err := b.Acquire(t.Context(), claim(t.Name(), false)); !errors.Is(err, driver.ErrTaken) {
			t.Fatalf("%v, want ErrTaken", err)
		}
	}
	if n, by := since(); n != 5 {
		t.Errorf("5 refusals cost %d requests: %v", n, by)
	}
	if after := revision(t, c); after != before {
		t.Errorf("they wrote: revision %d, before %d", after, before)
	}
}

// TestTokenIsCreateRevision: also when the lock was waited for, while the store's
// revision went on.
func TestTokenIsCreateRevision(t *testing.T) {
	t.Parallel()
	c := dial(t, servers.SharedEtcd(t).Addr())
	b := driverOf(t, c)
	take(t, driverOf(t, c), t.Name())
	granted := make(chan driver.Grant, 1)
	go func() {
		g, err := b.Acquire(t.Context(), claim(t.Name(), true))
		if err != nil {
			t.Error(err)
		}
		granted <- g
	}()
	keys := queued(t, c, t.Name(), 2)
	for range 3 {
		if _, err := c.Put(t.Context(), t.Name()+"-else", ""); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Delete(t.Context(), keys[0]); err != nil {
		t.Fatal(err)
	}
	g := <-granted
	r, err := c.Get(t.Context(), keys[1])
	if err != nil || len(r.Kvs) != 1 {
		t.Fatalf("%v %v", r, err)
	}
	if g.Token != r.Kvs[0].CreateRevision {
		t.Errorf("token %d, create revision %d", g.Token, r.Kvs[0].CreateRevision)
	}
}

// TestRenewalCountsFromSending: an answer that was long on its way does not stretch
// the deadline.
func TestRenewalCountsFromSending(t *testing.T) {
	t.Parallel()
	e := servers.SharedEtcd(t)
	p := front(t, e.Addr())
	b := driverOf(t, dial(t, p.Addr()), locker.WithTTL(15*time.Second))
	c := take(t, b, t.Name())
	s := b.session.Load()
	p.Delay(0, 700*time.Millisecond)
	defer p.Heal()
	s.suspect() // is to be renewed now
	before := b.clock.Now()
	reported := false
	b.Renew(t.Context(), []*driver.Claim{c}, func(_ *driver.Claim, until driver.Instant, err error) {
		reported = true
		// It was sent at once, but may have had to open a stream first, which
		// takes no exchange.
		if slack := until.Sub(before) - s.ttl; err != nil || slack < 0 || slack > 500*time.Millisecond {
			t.Errorf("until %v after the renewal was begun, TTL %v: %v", until.Sub(before), s.ttl, err)
		}
	})
	if took := b.clock.Now().Sub(before); took < 700*time.Millisecond {
		t.Fatalf("the answer came after %v: it was not delayed", took)
	}
	if !reported {
		t.Error("nothing was reported")
	}
}

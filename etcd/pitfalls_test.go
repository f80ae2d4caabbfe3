package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/servers"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Each test here shows one trap that the client's own mutex steps into, or that the
// server sets, and fails where it is not handled.

// driverOf opens a driver without the core around it.
func driverOf(t testing.TB, c *clientv3.Client, opts ...locker.Option) *backend {
	t.Helper()
	b, _, err := open(c, opts)
	if err != nil {
		t.Fatal(err)
	}
	b.pace.patience = 10 * time.Second // nobody here asks again, as the core does
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_ = b.Close(ctx)
	})
	return b
}

var claims struct {
	sync.Mutex
	n int
}

func claim(name string, wait bool) *driver.Claim {
	claims.Lock()
	defer claims.Unlock()
	claims.n++
	return &driver.Claim{Name: name, ID: fmt.Sprintf("%032x", claims.n), Owner: "test", TTL: locker.DefaultTTL, Wait: wait}
}

// take acquires a name that is free.
func take(t testing.TB, b *backend, name string) *driver.Claim {
	t.Helper()
	c := claim(name, true)
	if _, err := b.Acquire(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return c
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
	if keys := queued(t, c, name, 3); slices.ContainsFunc(keys, func(k string) bool { return k == "" }) {
		t.Fatal(keys)
	}
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

// TestCancelledOnStalledServer: who gives up returns at once, although cleaning up has to
// wait for the server.
func TestCancelledOnStalledServer(t *testing.T) {
	t.Parallel()
	c := dial(t, servers.SharedEtcd(t).Addr())
	p := front(t, servers.SharedEtcd(t).Addr())
	holder := newLocker(t, c)
	held, err := holder.Acquire(t.Context(), t.Name())
	if err != nil {
		t.Fatal(err)
	}
	waiter := newLocker(t, dial(t, p.Addr()))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := waiter.Acquire(ctx, t.Name())
		done <- err
	}()
	queued(t, c, t.Name(), 2)
	p.Freeze()
	cancelled := time.Now()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if d := time.Since(cancelled); d > time.Second {
		t.Errorf("returned %v after the cancellation", d)
	}
	p.Heal()
	queued(t, c, t.Name(), 1)
	if err := held.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestReleaseAfterRevoke: what the server has taken away is not said to be released.
func TestReleaseAfterRevoke(t *testing.T) {
	t.Parallel()
	c := dial(t, servers.SharedEtcd(t).Addr())
	b := driverOf(t, c)
	claim := take(t, b, t.Name())
	if _, err := c.Revoke(t.Context(), b.session.Load().lease); err != nil {
		t.Fatal(err)
	}
	if err := b.Release(t.Context(), claim); !errors.Is(err, driver.ErrGone) {
		t.Errorf("release after the lease was revoked: %v, want ErrGone", err)
	}
}

// TestReleaseComparesRevision: a key of the same name that was created later is not
// deleted, neither by a release nor by cleaning up.
func TestReleaseComparesRevision(t *testing.T) {
	t.Parallel()
	c := dial(t, servers.SharedEtcd(t).Addr())
	b := driverOf(t, c)
	claim := take(t, b, t.Name())
	key := under(t, c, t.Name())[0]
	if _, err := c.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Put(t.Context(), key, "somebody else"); err != nil {
		t.Fatal(err)
	}
	if err := b.Release(t.Context(), claim); !errors.Is(err, driver.ErrGone) {
		t.Errorf("release: %v, want ErrGone", err)
	}
	if err := b.Abandon(t.Context(), claim); err != nil {
		t.Errorf("abandon: %v", err)
	}
	if keys := under(t, c, t.Name()); len(keys) != 1 {
		t.Errorf("the successor's key was deleted: %v", keys)
	}
	// It is not taken for one of ours either.
	if _, err := b.Acquire(t.Context(), newClaimLike(claim)); !errors.Is(err, driver.ErrTaken) {
		t.Errorf("acquire behind a foreign key: %v, want ErrTaken", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := make(chan error, 1)
	go func() { _, err := b.Acquire(ctx, claimFor(t.Name())); got <- err }()
	queued(t, c, t.Name(), 2)
	if _, err := c.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Error(err)
	}
}

func claimFor(name string) *driver.Claim         { return claim(name, true) }
func newClaimLike(c *driver.Claim) *driver.Claim { return claim(c.Name, false) }
func revision(t testing.TB, c *clientv3.Client) int64 {
	t.Helper()
	r, err := c.Get(context.Background(), "nothing")
	if err != nil {
		t.Fatal(err)
	}
	return r.Header.Revision
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

// TestHandOverIsPrompt: a waiter hears of a release at once and not with the server's
// next round for watches from the past, which comes every 100 ms.
func TestHandOverIsPrompt(t *testing.T) {
	t.Parallel()
	e := servers.SharedEtcd(t)
	lockers := []locker.Locker{newLocker(t, dial(t, e.Addr())), newLocker(t, dial(t, e.Addr())), newLocker(t, dial(t, e.Addr()))}
	admin := dial(t, e.Addr())
	lock, err := lockers[0].Acquire(t.Context(), t.Name())
	if err != nil {
		t.Fatal(err)
	}
	var took []time.Duration
	for i := range 21 {
		next := make(chan *locker.Lock, 1)
		go func() {
			l, err := lockers[(i+1)%len(lockers)].Acquire(t.Context(), t.Name())
			if err != nil {
				t.Error(err)
			}
			next <- l
		}()
		queued(t, admin, t.Name(), 2)
		begin := time.Now()
		if err := lock.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if lock = <-next; lock == nil {
			t.FailNow()
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	if median := took[len(took)/2]; median > 50*time.Millisecond {
		t.Errorf("half of the hand-overs took longer than %v: %v", median, took)
	}
}

// TestTokenIsCreateRevision: also when the lock was waited for, while the store's
// revision went on.
func TestTokenIsCreateRevision(t *testing.T) {
	t.Parallel()
	c := dial(t, servers.SharedEtcd(t).Addr())
	b := driverOf(t, c)
	first := take(t, driverOf(t, c), t.Name())
	_ = first
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

// TestNoLeaderEndsWatch: a member that has lost the others says so to who watches on it.
func TestNoLeaderEndsWatch(t *testing.T) {
	t.Parallel()
	cluster := servers.NewEtcdCluster(t, 3, servers.EtcdOptions{})
	b := driverOf(t, dial(t, cluster.Members[0].Addr()))
	take(t, b, t.Name())
	tap, _, err := b.watch(t.Context(), "whatever", 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range cluster.Members[1:] {
		if err := m.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-tap.done:
		if !errors.Is(tap.err, rpctypes.ErrNoLeader) {
			t.Errorf("the watch ended with: %v", tap.err)
		}
	case <-time.After(30 * time.Second):
		t.Error("the watch goes on although there is no leader")
	}
	// And without one nobody hangs.
	begun := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	_, err = b.Acquire(ctx, claim(t.Name()+"2", false))
	// Which of the two is said depends on whether the member answers before ctx ends.
	if err == nil || !strings.Contains(err.Error(), "no leader") && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("acquire without a quorum: %v", err)
	}
	if d := time.Since(begun); d > 5*time.Second {
		t.Errorf("it took %v", d)
	}
}

package etcd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/servers"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestLeaseRevoked: the holder is told by the next Renew, and new acquisitions of the same Locker
// are under a new lease.
func TestLeaseRevoked(t *testing.T) {
	t.Parallel()
	c := dial(t, servers.SharedEtcd(t).Addr())
	b := driverOf(t, c)
	held := hold(t, b, t.Name())
	old := b.session.Load()
	if _, err := c.Revoke(t.Context(), old.lease); err != nil {
		t.Fatal(err)
	}
	eventually.Is(t, "telling the holder", func() bool { return len(lost(t, b, held)) == 1 })
	if err := b.Release(t.Context(), held); !errors.Is(err, driver.ErrGone) {
		t.Errorf("release after the lease was revoked: %v, want ErrGone", err)
	}
	again := hold(t, b, t.Name())
	s := b.session.Load()
	if s == old || again.State.(*claimState).session != s {
		t.Error("the new acquisition is not under a new lease")
	}
}

// TestGrantOfALostSession: a claim that was put under a lease that is gone is not granted with the
// deadline of the next one.
func TestGrantOfALostSession(t *testing.T) {
	t.Parallel()
	c := dial(t, servers.SharedEtcd(t).Addr())
	b := driverOf(t, c)
	cs := hold(t, b, t.Name()).State.(*claimState)
	b.endSession(cs.session)
	hold(t, b, t.Name()+"2") // begins the next session
	if g, err := b.grant(t.Context(), cs); !errors.Is(err, errSessionGone) || cs.session == b.session.Load() {
		t.Errorf("%v %v, want errSessionGone", g, err)
	}
}

// TestKeyDeleted: holders whose keys are deleted by hand are told by the next Renew, and nobody
// else: one of 300, and all of 3,000 with names of 1,000 escaped bytes, which are more than a gRPC
// message of etcd's may hold, 4 MiB.
func TestKeyDeleted(t *testing.T) {
	for n, escaped := range map[int]int{1: 0, 300: 0, 3000: 1000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			c := dial(t, servers.NewEtcd(t, servers.EtcdOptions{}).Addr())
			b := driverOf(t, c, locker.WithTTL(5*time.Minute)) // nothing is renewed while so many are acquired
			held := make([]*driver.Claim, n)
			spread(n, func(i int) {
				held[i] = claim(fmt.Sprintf("%04d", i)+strings.Repeat("\x00", escaped), true)
				if _, err := b.Acquire(context.Background(), held[i]); err != nil {
					t.Error(err)
				}
			})
			remove(t, c, held[n/2].State.(*claimState).key)
			var gone []*driver.Claim // as soon as the server has answered: an unread key counts as there
			eventually.Is(t, "telling one", func() bool { gone = lost(t, b, held...); return len(gone) > 0 })
			if len(gone) != 1 || gone[0] != held[n/2] {
				t.Errorf("%d holders were told, want the one of %d", len(gone), n/2)
			}
			remove(t, c, b.prefix, clientv3.WithPrefix())
			eventually.Is(t, "telling all", func() bool { return len(lost(t, b, held...)) == n })
		})
	}
}

// TestKeyDeletedOnModestServer: also where a server takes fewer operations in a request than there are holders.
func TestKeyDeletedOnModestServer(t *testing.T) {
	t.Parallel()
	c := dial(t, servers.NewEtcd(t, servers.EtcdOptions{Args: []string{"--max-txn-ops", "10"}}).Addr())
	b := driverOf(t, c)
	var held []*driver.Claim
	for i := range 50 {
		held = append(held, hold(t, b, fmt.Sprint(i)))
	}
	for _, deleted := range []int{40, 3} {
		remove(t, c, held[deleted].State.(*claimState).key)
		eventually.Is(t, "telling one", func() bool { return slices.Equal(lost(t, b, held...), held[deleted:deleted+1]) })
		held = slices.Delete(held, deleted, deleted+1)
	}
}

// TestWanted: a holder is told that somebody waits for it, and not that others hold with it; also of readers that are more than
// one request confirms.
func TestWanted(t *testing.T) {
	t.Parallel()
	c := dial(t, servers.SharedEtcd(t).Addr())
	b, other := driverOf(t, c), driverOf(t, c)
	claims := []*driver.Claim{claim(t.Name()+"x", true)}
	const readers = claimsPerTxn + 2
	for range readers {
		claims = append(claims, claimOf(t.Name(), 1, driver.All))
	}
	var wanted [1 + readers]atomic.Bool
	for i, c := range claims {
		c.Wanted = func() { wanted[i].Store(true) }
		take(t, b, c)
	}
	confirm := func() { b.Renew(t.Context(), claims, func(*driver.Claim, driver.Instant, error) {}) }
	confirm()
	for i := range wanted {
		if wanted[i].Load() {
			t.Errorf("%d is wanted by nobody", i)
		}
	}
	begin(t, other, claim(t.Name()+"x", true))
	begin(t, other, claim(t.Name(), true))
	queueHas(t, c, t.Name(), readers+1)
	queueHas(t, c, t.Name()+"x", 2)
	for range wantedEvery {
		confirm()
	}
	var untold []int
	for i := range wanted {
		if !wanted[i].Load() {
			untold = append(untold, i)
		}
	}
	if len(untold) > 0 {
		t.Errorf("not told: %v", untold)
	}
}

// TestReadersReadTheirOwnKey: of those who hold together only one reads all of their queue when they are confirmed.
func TestReadersReadTheirOwnKey(t *testing.T) {
	t.Parallel()
	var keys atomic.Int64
	b := driverOf(t, dialThrough(t, servers.SharedEtcd(t).Addr(), func(_ context.Context, _ string, _, reply any, do func(any) error) error {
		err := do(reply)
		if txn, ok := reply.(*pb.TxnResponse); ok && err == nil {
			for _, r := range txn.Responses {
				keys.Add(int64(len(r.GetResponseRange().GetKvs())))
			}
		}
		return err
	}, nil))
	const readers = 20
	var held []*driver.Claim
	for range readers {
		c := claimOf(t.Name(), 1, driver.All)
		take(t, b, c)
		held = append(held, c)
	}
	keys.Store(0)
	for range wantedEvery {
		if gone := lost(t, b, held...); len(gone) > 0 {
			t.Errorf("%d are gone", len(gone))
		}
	}
	if n, most := keys.Load(), int64(readers*wantedEvery+readers-1); n > most {
		t.Errorf("%d readers read %d keys in %d confirmations, want %d at most", readers, n, wantedEvery, most)
	}
}

// TestLossIsToldBeforeRenewal: who has lost its key is told although a renewal hangs.
func TestLossIsToldBeforeRenewal(t *testing.T) {
	t.Parallel()
	told, overdue := make(chan struct{}), time.After(time.Minute)
	c := dialThrough(t, servers.SharedEtcd(t).Addr(), nil, func(method string) error {
		if strings.HasSuffix(method, "/LeaseKeepAlive") {
			select {
			case <-told:
			case <-overdue:
				t.Error("not told before the renewal has ended")
			}
		}
		return nil
	})
	b := driverOf(t, c)
	held := hold(t, b, t.Name())
	remove(t, c, keysOf(t, c, t.Name())[0])
	renewalIsDue(b)
	b.Renew(t.Context(), []*driver.Claim{held}, func(_ *driver.Claim, _ driver.Instant, err error) {
		if !errors.Is(err, driver.ErrGone) {
			t.Errorf("report: %v, want ErrGone", err)
		}
		close(told)
	})
}

// renewalIsDue has the next Renew of b renew its session.
func renewalIsDue(b *backend) {
	s := b.session.Load()
	s.sent.Store(int64(b.clock.Now().Add(-s.ttl / 2)))
}

// TestFailedRenewalIsTold: while renewals fail it is not known until when a claim holds, and the report says why.
func TestFailedRenewalIsTold(t *testing.T) {
	t.Parallel()
	var fails atomic.Bool
	c := dialThrough(t, servers.SharedEtcd(t).Addr(), nil, func(method string) error {
		if fails.Load() && strings.HasSuffix(method, "/LeaseKeepAlive") {
			return rpctypes.ErrGRPCNoLeader
		}
		return nil
	})
	b := driverOf(t, c)
	held := hold(t, b, t.Name())
	for _, fail := range []bool{true, false} {
		fails.Store(fail)
		renewalIsDue(b)
		eventually.Is(t, "the report", func() (as bool) { // a late machine may have no answer
			b.Renew(t.Context(), []*driver.Claim{held}, func(_ *driver.Claim, until driver.Instant, err error) {
				as = fail && errors.Is(err, rpctypes.ErrNoLeader) && until == 0 || !fail && err == nil && until > b.clock.Now()
			})
			return as
		})
	}
}

// TestRenewalAtEveryEndpoint: an endpoint that refuses connections does not keep renewals from the others.
func TestRenewalAtEveryEndpoint(t *testing.T) {
	t.Parallel()
	b := driverOf(t, dial(t, "127.0.0.1:1", servers.SharedEtcd(t).Addr()))
	hold(t, b, t.Name())
	s := b.session.Load()
	s.failing.Store(true) // the next goes to the first endpoint, by a connection of its own
	eventually.Is(t, "a renewal", func() bool { return b.renewSession(t.Context(), s) == nil })
}

// TestRenewalCountsFromSending: an answer that was long on its way does not stretch
// the deadline.
func TestRenewalCountsFromSending(t *testing.T) {
	t.Parallel()
	p := front(t, servers.SharedEtcd(t).Addr())
	b := driverOf(t, dial(t, p.Addr()))
	c := hold(t, b, t.Name())
	s := c.State.(*claimState).session
	p.Delay(0, 700*time.Millisecond)
	defer p.Heal()
	var before driver.Instant
	eventually.Is(t, "a renewal that is answered", func() bool {
		before = b.clock.Now()
		err := b.renewSession(t.Context(), s)
		if err != errSilence {
			must(t, err)
		}
		return err == nil
	})
	took := b.clock.Now().Sub(before)
	if took < 700*time.Millisecond {
		t.Fatalf("the answer came after %v: it was not delayed", took)
	}
	if slack := s.expiry().Sub(before) - s.ttl; slack < 0 || slack > took-700*time.Millisecond {
		t.Errorf("until %v after the renewal was begun, which took %v, TTL %v", s.expiry().Sub(before), took, s.ttl)
	}
}

// TestSessionCountsFromSending: nor does the answer to the request for the session's lease.
func TestSessionCountsFromSending(t *testing.T) {
	t.Parallel()
	const late = 700 * time.Millisecond
	p := front(t, servers.SharedEtcd(t).Addr())
	client := dial(t, p.Addr())
	b := driverOf(t, client)
	keysOf(t, client, t.Name()) // there is a connection
	p.Delay(0, late)
	defer p.Heal()
	before := b.clock.Now()
	g := take(t, b, claim(t.Name(), true))
	took := b.clock.Now().Sub(before)
	// After the lease was asked for came the answer to that, and one to the request for the name.
	ttl := b.session.Load().ttl
	if slack := g.Until.Sub(before) - ttl; slack < 0 || slack > took-2*late {
		t.Errorf("until %v after the acquisition was begun, which took %v, TTL %v", g.Until.Sub(before), took, ttl)
	}
}

// TestForgottenConnection: a firewall has forgotten the client's only connection and lets new
// ones through. The client sends no probes. The lease is renewed all the same.
func TestForgottenConnection(t *testing.T) {
	t.Parallel()
	e := servers.SharedEtcd(t)
	old, young := front(t, e.Addr()), front(t, e.Addr())
	firewall := front(t, old.Addr())
	b := impatient(driverOf(t, dial(t, firewall.Addr()), locker.WithTTL(30*time.Second))) // time for many tries by another connection
	held := hold(t, b, t.Name())
	firewall.SetTarget(young.Addr())
	old.Freeze()
	defer old.Heal() // for the end of the session
	frozen := b.clock.Now()
	gone := renewing(t, b, held)
	ttl := held.State.(*claimState).session.ttl
	eventually.Is(t, "renewals by another connection", func() bool {
		return len(gone) > 0 || held.State.(*claimState).session.expiry() > frozen.Add(ttl*3/2)
	})
	if len(gone) > 0 {
		t.Error("the lock was lost")
	}
	if young.Stats().Accepted == 0 {
		t.Error("no other connection was made")
	}
}

// TestRenewalsThatFailTogether: the next goes by another connection, however many have failed.
func TestRenewalsThatFailTogether(t *testing.T) {
	t.Parallel()
	e := servers.SharedEtcd(t)
	old, young := front(t, e.Addr()), front(t, e.Addr())
	firewall := front(t, old.Addr())
	b := driverOf(t, dial(t, firewall.Addr()), locker.WithTTL(time.Minute))
	hold(t, b, t.Name())
	firewall.SetTarget(young.Addr())
	old.Freeze()
	defer old.Heal()
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			if err := b.renewSession(t.Context(), b.session.Load()); err == nil {
				t.Error("renewed by a connection that is dead")
			}
		})
	}
	all.Wait()
	_ = b.renewSession(t.Context(), b.session.Load()) // on a late machine it may have no answer in time
	eventually.Is(t, "another connection", func() bool { return young.Stats().Accepted > 0 })
}

// TestClosedClient: every call on a client that was closed says so at once, also one that waits.
func TestClosedClient(t *testing.T) {
	t.Parallel()
	e := servers.SharedEtcd(t)
	hold(t, driverOf(t, dial(t, e.Addr())), t.Name()+"2")
	client := dial(t, e.Addr())
	l := newLocker(t, client)
	lock, err := l.Acquire(t.Context(), t.Name())
	must(t, err)
	waiting := make(chan error, 1)
	go func() { _, err := l.Acquire(t.Context(), t.Name()+"2"); waiting <- err }()
	queueHas(t, dial(t, e.Addr()), t.Name()+"2", 2)
	must(t, client.Close())
	inTime := locktest.Limit(t, 3*time.Second)
	for what, do := range map[string]func() error{
		"waiting": func() error { return soon(t, "the end of the wait", waiting) },
		"acquire": func() error { _, err := l.Acquire(t.Context(), t.Name()+"3"); return err },
		"try":     func() error { _, err := l.TryAcquire(t.Context(), t.Name()+"3"); return err },
		"release": func() error { return lock.Release(t.Context()) },
		"close":   func() error { return l.Close(t.Context()) },
	} {
		if err := do(); err == nil || !strings.Contains(err.Error(), "closed") {
			t.Errorf("%s: %v", what, err)
		}
		inTime(what)
	}
}

// TestRestored: the server is given an older state back, in which the lease is the same
// but a later key is not there, nor what came after a request of which nobody knew. The
// holder of the key is told, that of an older one is not, waiters go on, and names can be
// acquired.
func TestRestored(t *testing.T) {
	t.Parallel()
	e := servers.NewEtcd(t, servers.EtcdOptions{})
	c := dial(t, e.Addr())
	b, other := driverOf(t, c, locker.WithTTL(time.Minute)), driverOf(t, c, locker.WithTTL(time.Minute))
	older := hold(t, b, "older")
	waited := hold(t, b, "waited")
	granted := begin(t, other, claim("waited", true))
	eventually.Is(t, "the watch of one who knows its place", func() bool { return watchers(t, e) > 0 })
	data, saved := filepath.Join(e.Dir(), "data"), filepath.Join(t.TempDir(), "saved")
	must(t, e.Kill(), os.CopyFS(saved, os.DirFS(data)), e.Restart(t.Context()))

	for range 100 { // which the waiter's watch has seen
		put(t, c, "something", "else")
	}
	later := hold(t, b, "later")
	doubtful := hold(t, b, "doubtful")
	cs := doubtful.State.(*claimState)
	cs.unsure, cs.late = true, true
	abandon(t, b, doubtful)
	if cs.session.passed.Load() == 0 {
		t.Fatal("the barrier has not moved")
	}
	gone := renewing(t, b, older, later)
	renewing(t, other)

	must(t, e.Kill(), os.RemoveAll(data), os.CopyFS(data, os.DirFS(saved)), e.Restart(t.Context()))
	if lost := soon(t, "the loss", gone); lost != later {
		t.Errorf("%q was told", lost.Name)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, wait := range []bool{true, false} {
		if _, err := b.Acquire(ctx, claim(fmt.Sprint("new", wait), wait)); err != nil {
			t.Errorf("acquire (wait %v): %v", wait, err)
		}
	}
	release(t, b, waited)
	// Its watch is for revisions that were reached before, so that it has to look by itself.
	must(t, locktest.Receive(t, "the grant", granted, fallbackInterval+30*time.Second))
	if len(gone) > 0 {
		t.Error("the holder of the key that is there was told that it is lost")
	}
	release(t, b, older)
}

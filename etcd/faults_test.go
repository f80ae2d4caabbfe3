package etcd

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/proxy"
	"github.com/seed80cd6120/locker/internal/servers"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// lost waits until a claim is told that it is lost.
func lost(t testing.TB, c *driver.Claim) <-chan error {
	ch := make(chan error, 10)
	c.Lost = func(reason error) { ch <- reason }
	return ch
}

// keep calls Renew as the core does, until the test ends.
func keep(t testing.TB, b *backend) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			b.Renew(ctx, nil, nil)
			select {
			case <-time.After(checkEvery):
			case <-ctx.Done():
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
}

// TestLateRequest: a request that put a key, was given up and cleaned up after, and
// arrives only then, has no effect. The client has two ways to the server, of which
// one freezes.
func TestLateRequest(t *testing.T) {
	t.Parallel()
	e := servers.NewEtcd(t, servers.EtcdOptions{})
	admin := dial(t, e.Addr())
	slow, fast := front(t, e.Addr()), front(t, e.Addr())
	b := driverOf(t, dial(t, slow.Addr(), fast.Addr()))
	b.pace.patience = 150 * time.Millisecond
	eventually(t, "both ways open", func() bool {
		c := take(t, b, "warm")
		if err := b.Release(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		return slow.Stats().Open > 0 && fast.Stats().Open > 0
	})
	late := 0
	for try := 0; late < 12; try++ {
		if try > 200 {
			t.Fatalf("only %d of %d requests took the slow way", late, try)
		}
		slow.FreezeUp()
		c := claim(t.Name(), try%2 == 0)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, err := b.Acquire(ctx, c)
		cancel()
		if err == nil {
			slow.Heal()
			if err := b.Release(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			// Requests take the two ways in turn: change step.
			if _, err := b.client.Get(t.Context(), "step"); err != nil {
				t.Fatal(err)
			}
			continue
		}
		late++
		eventually(t, "clean-up over the fast way", func() bool { return b.Abandon(t.Context(), c) == nil })
		slow.Heal()
		eventually(t, "late request delivered", func() bool { return slow.Stats().HeldUp == 0 })
		for range 4 { // both ways, behind it
			if _, err := b.client.Get(t.Context(), "barrier"); err != nil {
				t.Fatal(err)
			}
		}
		if keys := under(t, admin, t.Name()); len(keys) > 0 {
			t.Fatalf("the late request left %v", keys)
		}
	}
	// And the fence lets through what was sent after it was moved.
	c := take(t, b, t.Name())
	if err := b.Release(t.Context(), c); err != nil {
		t.Error(err)
	}
}

// TestLostReply: who is in the queue already, by a request whose answer was lost,
// recognises itself and is not put there twice.
func TestLostReply(t *testing.T) {
	t.Parallel()
	e := servers.SharedEtcd(t)
	admin := dial(t, e.Addr())
	p := front(t, e.Addr())
	b := driverOf(t, dial(t, p.Addr()))
	take(t, b, t.Name()+"session")
	for _, wait := range []bool{true, false} {
		name := t.Name()
		p.SwallowReply(func(request []byte) bool { return bytes.Contains(request, []byte(name+"/")) }, 50*time.Millisecond)
		c := claim(name, wait)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		g, err := b.Acquire(ctx, c)
		cancel()
		if err != nil {
			t.Fatalf("wait %v: %v", wait, err)
		}
		if n := p.Stats().Swallowed; n == 0 {
			t.Fatal("no reply was swallowed")
		}
		r, err := admin.Get(t.Context(), b.queueOf(name), clientv3.WithPrefix())
		if err != nil || len(r.Kvs) != 1 || r.Kvs[0].CreateRevision != g.Token {
			t.Errorf("wait %v: token %d, keys %v %v", wait, g.Token, r.Kvs, err)
		}
		if err := b.Release(t.Context(), c); err != nil {
			t.Errorf("wait %v: release: %v", wait, err)
		}
	}
}

// TestLeaseRevoked: the holder is told within a second, waiters and new acquisitions
// of the same Locker go on under a new lease.
func TestLeaseRevoked(t *testing.T) {
	t.Parallel()
	c := dial(t, servers.SharedEtcd(t).Addr())
	b := driverOf(t, c)
	keep(t, b)
	held := claim(t.Name(), true)
	told := lost(t, held)
	if _, err := b.Acquire(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	other := driverOf(t, c)
	elsewhere := take(t, other, t.Name()+"2")
	waiter := claim(t.Name()+"2", true)
	granted := make(chan error, 1)
	go func() { _, err := b.Acquire(t.Context(), waiter); granted <- err }()
	queued(t, c, t.Name()+"2", 2)

	old := b.session.Load()
	if _, err := c.Revoke(t.Context(), old.lease); err != nil {
		t.Fatal(err)
	}
	select {
	case <-told:
	case <-time.After(5 * time.Second): // a second, and what a busy machine adds
		t.Error("the holder was not told")
	}
	queued(t, c, t.Name()+"2", 2) // the waiter is in the queue again
	again := take(t, b, t.Name())
	if s := b.session.Load(); s == old || again.State.(*entry).session != s {
		t.Error("the new acquisition is not under a new lease")
	}
	if err := other.Release(t.Context(), elsewhere); err != nil {
		t.Error(err)
	}
	if err := <-granted; err != nil {
		t.Errorf("the waiter: %v", err)
	}
	if s := waiter.State.(*entry).session; s == old {
		t.Error("the waiter was granted under the lease that was revoked")
	}
}

// TestWaiterLosesItsPlace: a waiter whose lease is revoked, or whose key is deleted, just
// before its turn comes is not granted what it no longer queues for, but queues anew.
func TestWaiterLosesItsPlace(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"lease revoked", "key deleted"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			c := dial(t, servers.SharedEtcd(t).Addr())
			holder, b := driverOf(t, c), driverOf(t, c)
			held := take(t, holder, t.Name())
			waiter := claim(t.Name(), true)
			granted := make(chan driver.Grant, 1)
			go func() {
				g, err := b.Acquire(t.Context(), waiter)
				if err != nil {
					t.Error(err)
				}
				granted <- g
			}()
			keys := queued(t, c, t.Name(), 2)
			if how == "lease revoked" {
				if _, err := c.Revoke(t.Context(), b.session.Load().lease); err != nil {
					t.Fatal(err)
				}
			} else if _, err := c.Delete(t.Context(), keys[1]); err != nil {
				t.Fatal(err)
			}
			if err := holder.Release(t.Context(), held); err != nil {
				t.Fatal(err)
			}
			g := <-granted
			r, err := c.Get(t.Context(), b.queueOf(t.Name()), clientv3.WithFirstCreate()...)
			if err != nil || len(r.Kvs) != 1 || r.Kvs[0].CreateRevision != g.Token {
				t.Errorf("granted token %d, at the head: %v %v", g.Token, r.Kvs, err)
			}
		})
	}
}

// TestKeyDeleted: a holder whose key is deleted by hand is told within a second, be
// it a new holder or an old one, one of a few or of hundreds.
func TestKeyDeleted(t *testing.T) {
	t.Parallel()
	c := dial(t, servers.SharedEtcd(t).Addr())
	b := driverOf(t, c)
	keep(t, b)
	for range 300 {
		take(t, b, t.Name()+claim("", false).ID)
	}
	for _, age := range []time.Duration{0, 100 * time.Millisecond, 1500 * time.Millisecond} {
		held := claim(t.Name(), true)
		told := lost(t, held)
		if _, err := b.Acquire(t.Context(), held); err != nil {
			t.Fatal(err)
		}
		time.Sleep(age) // the age is what is tested
		if _, err := c.Delete(t.Context(), held.State.(*entry).key); err != nil {
			t.Fatal(err)
		}
		deleted := time.Now()
		reason := <-told
		if took := time.Since(deleted); took > 3*time.Second {
			t.Errorf("a lock held for %v: told after %v", age, took)
		}
		if !errors.Is(reason, driver.ErrGone) {
			t.Errorf("reason: %v", reason)
		}
	}
}

// TestCompaction: the history that a waiter, or a holder's guard, would need after its
// watch was cut is compacted: they read again.
func TestCompaction(t *testing.T) {
	t.Parallel()
	e := servers.NewEtcd(t, servers.EtcdOptions{})
	c := dial(t, e.Addr())
	p := front(t, e.Addr())
	b := driverOf(t, dial(t, p.Addr()))
	keep(t, b)
	holder := driverOf(t, c)
	held := take(t, holder, t.Name())
	granted := make(chan error, 1)
	waiter := claim(t.Name(), true)
	go func() { _, err := b.Acquire(t.Context(), waiter); granted <- err }()
	queued(t, c, t.Name(), 2)
	guarded := claim(t.Name()+"2", true)
	told := lost(t, guarded)
	if _, err := b.Acquire(t.Context(), guarded); err != nil {
		t.Fatal(err)
	}
	kept := take(t, b, t.Name()+"3")
	eventually(t, "guarded", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return guarded.State.(*entry).guard != nil && kept.State.(*entry).guard != nil
	})

	p.Refuse()
	p.Cut()
	if err := holder.Release(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Delete(t.Context(), guarded.State.(*entry).key); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Compact(t.Context(), revision(t, c), clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	p.Heal()
	if err := <-granted; err != nil {
		t.Errorf("waiter: %v", err)
	}
	<-told
	eventually(t, "the other is guarded again", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		g := kept.State.(*entry).guard
		if g == nil {
			return false
		}
		select {
		case <-g.w.known:
			return g.w.id >= 0
		default:
			return false
		}
	})
	if err := b.Release(t.Context(), kept); err != nil {
		t.Errorf("a lock that was kept: %v", err)
	}
	if err := b.Release(t.Context(), waiter); err != nil {
		t.Error(err)
	}
	if keys := under(t, c, t.Name()); len(keys) > 0 {
		t.Errorf("left: %v", keys)
	}
}

// TestReleaseBeforeWatch: whoever was ahead is gone before the watch on its key begins.
func TestReleaseBeforeWatch(t *testing.T) {
	t.Parallel()
	e := servers.SharedEtcd(t)
	c := dial(t, e.Addr())
	for _, ahead := range []int{1, 2, 4} {
		p := front(t, e.Addr())
		b := driverOf(t, dial(t, p.Addr()))
		name := t.Name() + string(rune('0'+ahead))
		take(t, b, name+"session")
		for i := range ahead {
			d := driverOf(t, c)
			go func() { _, _ = d.Acquire(t.Context(), claim(name, true)) }()
			queued(t, c, name, i+1)
		}
		p.Delay(0, 400*time.Millisecond) // answers take their time
		granted := make(chan error, 1)
		begun := time.Now()
		go func() { _, err := b.Acquire(t.Context(), claim(name, true)); granted <- err }()
		keys := queued(t, c, name, ahead+1)
		for _, key := range keys[:ahead] { // all go while the answer is on its way
			if _, err := c.Delete(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
		if time.Since(begun) > 400*time.Millisecond {
			t.Log("too slow: the answer may have come before")
		}
		select {
		case err := <-granted:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%d ahead: stuck", ahead)
		}
		p.Heal()
	}
}

// TestPlainDelete: what takes the place of the transaction where that is refused for
// want of space.
func TestPlainDelete(t *testing.T) {
	t.Parallel()
	e := servers.SharedEtcd(t)
	admin := dial(t, e.Addr())
	p := front(t, e.Addr())
	b := driverOf(t, dial(t, p.Addr()))
	b.pace.patience = 200 * time.Millisecond
	c := take(t, b, t.Name())
	first := c.State.(*entry)
	p.Freeze()
	if err := b.deletePlain(t.Context(), first); err == nil {
		t.Error("an answer although the network is frozen")
	}
	p.Heal()
	queued(t, admin, t.Name(), 0)
	if err := b.deletePlain(t.Context(), first); !errors.Is(err, driver.ErrGone) {
		t.Errorf("again: %v, want ErrGone", err)
	}
	b.forget(first)
	// It might come once more: nobody has this key again.
	if next := take(t, b, t.Name()).State.(*entry); next.key == first.key {
		t.Error("the key is used again")
	}
}

// TestNoSpace: without space an acquisition fails and says why, but a release works,
// and the name is free for when there is space again.
func TestNoSpace(t *testing.T) {
	t.Parallel()
	for _, old := range []bool{false, true} {
		name := map[bool]string{false: "new", true: "old"}[old]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := servers.NewEtcd(t, servers.EtcdOptions{Old: old, Args: []string{"--quota-backend-bytes", "2097152"}})
			c := dial(t, e.Addr())
			l := newLocker(t, c)
			lock, err := l.Acquire(t.Context(), t.Name())
			if err != nil {
				t.Fatal(err)
			}
			waiting := make(chan error, 1)
			next := newLocker(t, c)
			go func() {
				lock, err := next.Acquire(t.Context(), t.Name())
				if err == nil {
					err = lock.Release(t.Context())
				}
				waiting <- err
			}()
			queued(t, c, t.Name(), 2)
			block := strings.Repeat("x", 200<<10)
			for err = nil; err == nil; {
				_, err = c.Put(t.Context(), "fill", block)
			}
			if !errors.Is(err, rpctypes.ErrNoSpace) {
				t.Fatal(err)
			}
			for _, wait := range []bool{false, true} {
				acquire := l.TryAcquire
				if wait {
					acquire = l.Acquire
				}
				if _, err := acquire(t.Context(), t.Name()+"2"); !errors.Is(err, rpctypes.ErrNoSpace) {
					t.Errorf("acquire without space (wait %v): %v", wait, err)
				}
			}
			if err := lock.Release(t.Context()); err != nil {
				t.Errorf("release without space: %v", err)
			}
			if err := <-waiting; err != nil {
				t.Errorf("who waited: %v", err)
			}
			queued(t, c, t.Name(), 0)
			queued(t, c, t.Name()+"2", 0)
		})
	}
}

// TestSilentMember: the member that carries the watch of a waiter falls silent without
// closing the connection. The others can be reached, and the waiter gets on.
func TestSilentMember(t *testing.T) {
	t.Parallel()
	cluster := servers.NewEtcdCluster(t, 3, servers.EtcdOptions{})
	admin := dial(t, cluster.Addrs()...)
	var ways []*proxy.Proxy
	var addrs []string
	for _, addr := range cluster.Addrs() {
		p := front(t, addr)
		ways, addrs = append(ways, p), append(addrs, p.Addr())
	}
	for i, way := range ways {
		name := t.Name() + string(rune('0'+i))
		holder := driverOf(t, admin)
		held := take(t, holder, name)
		b := driverOf(t, dial(t, addrs...), locker.WithTTL(3*time.Second))
		b.pace.patience = 2 * time.Second
		keep(t, b)
		granted := make(chan error, 1)
		go func() { _, err := b.Acquire(t.Context(), claim(name, true)); granted <- err }()
		queued(t, admin, name, 2)
		way.Freeze()
		if err := holder.Release(t.Context(), held); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-granted:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(20 * time.Second):
			t.Errorf("member %d silent: the waiter is stuck", i)
		}
		way.Heal()
	}
}

// TestLeaderMoves: waiting is bounded although the leader moves again and again.
func TestLeaderMoves(t *testing.T) {
	t.Parallel()
	cluster := servers.NewEtcdCluster(t, 3, servers.EtcdOptions{})
	c := dial(t, cluster.Addrs()...)
	ctx, cancel := context.WithCancel(t.Context())
	moved := make(chan int)
	go func() {
		n := 0
		for ; ctx.Err() == nil; n++ {
			if err := cluster.MoveLeader(ctx, cluster.Members[n%3]); err != nil && ctx.Err() == nil {
				t.Error(err)
				break
			}
		}
		moved <- n
	}()
	a, b := newLocker(t, c), newLocker(t, c)
	var last int64
	for begun := time.Now(); time.Since(begun) < 5*time.Second; {
		for _, l := range []locker.Locker{a, b} {
			ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
			lock, err := l.Acquire(ctx, t.Name())
			cancel()
			if err != nil {
				t.Fatal(err)
			}
			if lock.Token() <= last {
				t.Errorf("token %d after %d", lock.Token(), last)
			}
			last = lock.Token()
			if err := lock.Release(t.Context()); err != nil && !errors.Is(err, locker.ErrLost) {
				t.Logf("release: %v", err)
			}
		}
	}
	cancel()
	if n := <-moved; n < 3 {
		t.Errorf("the leader moved only %d times", n)
	}
}

// TestLeaderStopped: the leader stands still for longer than the TTL, and goes on. There
// are never two holders, and whoever holds at the end really does.
func TestLeaderStopped(t *testing.T) {
	t.Parallel()
	cluster := servers.NewEtcdCluster(t, 3, servers.EtcdOptions{})
	c := dial(t, cluster.Addrs()...)
	a := newLocker(t, dial(t, cluster.Addrs()...), locker.WithTTL(4*time.Second))
	lock, err := a.Acquire(t.Context(), t.Name())
	if err != nil {
		t.Fatal(err)
	}
	b := newLocker(t, dial(t, cluster.Addrs()...), locker.WithTTL(4*time.Second))
	next := make(chan *locker.Lock, 1)
	go func() {
		l, err := b.Acquire(t.Context(), t.Name())
		if err != nil {
			t.Error(err)
		} else if lock.Context().Err() == nil {
			t.Error("granted while the first still believes that it holds")
		}
		next <- l
	}()
	queued(t, c, t.Name(), 2)
	leader, err := cluster.Leader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := leader.Pause(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-lock.Context().Done(): // as may be: the new leader gives every lease its full TTL
	case <-time.After(7 * time.Second):
	}
	if err := leader.Resume(); err != nil {
		t.Fatal(err)
	}
	if err := lock.Release(t.Context()); err != nil {
		t.Logf("release: %v", err)
	}
	l := <-next
	if l == nil {
		t.FailNow()
	}
	if l.Token() <= lock.Token() {
		t.Errorf("token %d after %d", l.Token(), lock.Token())
	}
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

package etcd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/servers"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestLeaseRevoked: the holder is told within a second, waiters and new acquisitions
// of the same Locker go on under a new lease.
func TestLeaseRevoked(t *testing.T) {
	t.Parallel()
	c := dial(t, servers.SharedEtcd(t).Addr())
	b := driverOf(t, c)
	keep(t, b)
	_, told := hold(t, b, t.Name())
	other := driverOf(t, c)
	elsewhere := take(t, other, t.Name()+"2")
	waiter := claim(t.Name()+"2", true)
	granted := begin(t, b, waiter)
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
// it a new holder or an old one, of a few or of hundreds, one or all of them.
func TestKeyDeleted(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 300} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			e := servers.NewEtcd(t, servers.EtcdOptions{})
			c := dial(t, e.Addr())
			b := driverOf(t, c)
			keep(t, b)
			var others []<-chan error
			for i := range n {
				_, told := hold(t, b, t.Name()+fmt.Sprint(i))
				others = append(others, told)
			}
			soon := func(what string, deleted time.Time, told <-chan error) {
				t.Helper()
				reason := <-told
				if took := time.Since(deleted); took > 3*time.Second { // a second, and what a busy machine adds
					t.Errorf("%s: told after %v", what, took)
				}
				if !errors.Is(reason, driver.ErrGone) {
					t.Errorf("%s: %v", what, reason)
				}
			}
			for _, age := range []time.Duration{0, 100 * time.Millisecond, 1500 * time.Millisecond} {
				held, told := hold(t, b, t.Name())
				time.Sleep(age) // the age is what is tested
				if _, err := c.Delete(t.Context(), held.State.(*entry).key); err != nil {
					t.Fatal(err)
				}
				soon(fmt.Sprintf("a lock held for %v", age), time.Now(), told)
			}
			for i, told := range others {
				if len(told) > 0 {
					t.Errorf("the %d. was told, too", i)
				}
			}
			if _, err := c.Delete(t.Context(), b.prefix, clientv3.WithPrefix()); err != nil {
				t.Fatal(err)
			}
			deleted := time.Now()
			for i, told := range others {
				soon(fmt.Sprintf("all deleted, the %d.", i), deleted, told)
			}
		})
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
	waiter := claim(t.Name(), true)
	granted := begin(t, b, waiter)
	queued(t, c, t.Name(), 2)
	taken, told := hold(t, b, t.Name()+"2")
	kept := take(t, b, t.Name()+"3")
	guarded(t, b, taken, kept)

	p.Refuse()
	p.Cut()
	if err := holder.Release(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Delete(t.Context(), taken.State.(*entry).key); err != nil {
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
	eventually.Is(t, "the other is guarded again", func() bool {
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

// TestRestored: the server is given an older state back, in which the lease is the same
// but a later key is not there, nor what came after a request of which nobody knew. The
// holder of the key is told, that of an older one is not, and names can be acquired.
func TestRestored(t *testing.T) {
	t.Parallel()
	e := servers.NewEtcd(t, servers.EtcdOptions{})
	b := driverOf(t, dial(t, e.Addr()))
	b.impatient(2 * time.Second)
	keep(t, b)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	older, toldOlder := hold(t, b, "older")
	guarded(t, b, older)
	data, saved := filepath.Join(e.Dir(), "data"), filepath.Join(t.TempDir(), "saved")
	must(e.Kill())
	must(os.CopyFS(saved, os.DirFS(data)))
	must(e.Restart(t.Context()))

	later, toldLater := hold(t, b, "later")
	guarded(t, b, later)
	doubtful := take(t, b, "doubtful")
	s := b.session.Load()
	doubtful.State.(*entry).doubts = []*session{s}
	must(b.Abandon(t.Context(), doubtful))
	if s.fenceMark() == 0 {
		t.Fatal("the fence has not moved")
	}

	must(e.Kill())
	must(os.RemoveAll(data))
	must(os.CopyFS(data, os.DirFS(saved)))
	must(e.Restart(t.Context()))
	select {
	case <-toldLater:
	case <-time.After(10 * time.Second):
		t.Error("the holder of the key that is gone was not told")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for _, wait := range []bool{true, false} {
		c := claim(fmt.Sprint("new", wait), wait)
		if _, err := b.Acquire(ctx, c); err != nil {
			t.Errorf("acquire (wait %v): %v", wait, err)
		}
	}
	if len(toldOlder) > 0 {
		t.Error("the holder of the key that is there was told that it is lost")
	}
	must(b.Release(t.Context(), older))
}

package etcd

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/internal/servers"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestHabit: where the same come again in the same order the release is all that the
// server is asked for between one holder and the next. Without space nothing can be marked,
// but released.
func TestHabit(t *testing.T) {
	t.Parallel()
	for _, old := range []bool{false, true} {
		t.Run(map[bool]string{false: "new", true: "old"}[old], func(t *testing.T) {
			t.Parallel()
			e := servers.NewEtcd(t, servers.EtcdOptions{Old: old, Args: []string{"--quota-backend-bytes", "2097152"}})
			r := newRing(t, e, 3)
			for range 6 {
				first, by := r.releaseCosts(e)
				if len(by) != 1 || by["KV/Txn"] != 1 {
					t.Errorf("the release alone wanted: %v", by)
				}
				r.join(first)
			}
			var err error
			for block := strings.Repeat("x", 200<<10); err == nil; {
				_, err = r.c.Put(t.Context(), "fill", block)
			}
			if !errors.Is(err, rpctypes.ErrNoSpace) {
				t.Fatal(err)
			}
			r.release()
			r.release()
		})
	}
}

// TestHabitOutlivesCompaction: what tells of a release are watches from now on, and the version of a
// key that is there; of what is compacted nothing is needed.
func TestHabitOutlivesCompaction(t *testing.T) {
	t.Parallel()
	e := servers.NewEtcd(t, servers.EtcdOptions{})
	r := newRing(t, e, 3)
	for range 6 {
		got, err := r.c.Get(t.Context(), "any")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.c.Compact(t.Context(), got.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
			t.Fatal(err)
		}
		first, by := r.releaseCosts(e)
		if len(by) != 1 || by["KV/Txn"] != 1 {
			t.Errorf("the release alone wanted: %v", by)
		}
		r.join(first)
	}
}

// TestHabitOthers: a release costs one request also when another is next than the last time,
// and that one finds out.
func TestHabitOthers(t *testing.T) {
	t.Parallel()
	e := servers.NewEtcd(t, servers.EtcdOptions{})
	r := newRing(t, e, 3)
	r.join(r.quit(1))
	rests(t, e)
	first, by := r.releaseCosts(e)
	if len(by) != 2 || by["KV/Txn"] != 1 || by["KV/Range"] != 1 {
		t.Errorf("a release and a look wanted: %v", by)
	}
	r.join(first)
	r.release()
}

// TestHabitMisleads: a mark on the wrong key makes nobody a holder. The second expects the
// holder, as the last time, and is marked, but stands behind the fourth now.
func TestHabitMisleads(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"given up", "lease revoked"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			r := newRing(t, servers.SharedEtcd(t), 4)
			second, third := r.quit(1), r.quit(1)
			wrong, last := r.join(second), r.join(third)
			r.release()
			if !r.marked(wrong) {
				t.Fatal("not marked: this shows nothing")
			}
			if how == "given up" {
				r.quit(1)
			} else {
				if _, err := r.c.Revoke(t.Context(), second.session.Load().lease); err != nil {
					t.Fatal(err)
				}
				r.queue = []*turn{r.queue[0], last}
			}
			r.waits(last)
			r.release()
		})
	}
}

// TestHabitAnotherExpects: a release that finds the key of somebody who expects it does not tell
// that of somebody who does not, and is next.
func TestHabitAnotherExpects(t *testing.T) {
	t.Parallel()
	r := newRing(t, servers.SharedEtcd(t), 4)
	third, fourth := r.quit(2), r.quit(2)
	u, last := r.join(fourth), r.join(third)
	r.release()
	if !r.marked(r.queue[0]) {
		t.Fatal("not marked: this shows nothing")
	}
	was := u.claim.State.(*entry).rev.Load()
	if _, err := r.c.Delete(t.Context(), u.claim.State.(*entry).key); err != nil {
		t.Fatal(err)
	}
	if err := r.queue[0].b.Release(t.Context(), r.queue[0].claim); err != nil {
		t.Fatal(err)
	}
	r.queuesAnew(u, was, last)
}

// TestHabitGivesUp: who waits behind one that gives up does not take that for a release.
func TestHabitGivesUp(t *testing.T) {
	t.Parallel()
	r := newRing(t, servers.SharedEtcd(t), 3)
	r.quit(1)
	r.waits(r.queue[1])
	r.release()
}

// TestHabitPlaceLost: who has lost its place queues anew, also where no look comes in
// between: however it has lost it, and however the holder ends.
func TestHabitPlaceLost(t *testing.T) {
	t.Parallel()
	revoke := func(r *ring, u *turn) error {
		_, err := r.c.Revoke(r.Context(), u.b.session.Load().lease)
		return err
	}
	remove := func(r *ring, u *turn) error {
		_, err := r.c.Delete(r.Context(), u.claim.State.(*entry).key)
		return err
	}
	release := func(r *ring, u *turn) error { return u.b.Release(r.Context(), u.claim) }
	abandon := func(r *ring, u *turn) error { return u.b.Abandon(r.Context(), u.claim) }
	type way struct {
		name string
		do   func(*ring, *turn) error
	}
	for _, lost := range []way{{"key deleted", remove}, {"lease revoked", revoke}} {
		for _, end := range []way{{"released", release}, {"abandoned", abandon}, {"lease revoked", revoke}} {
			if lost.name == "key deleted" && end.name == "lease revoked" {
				continue // the guard tells
			}
			t.Run(lost.name+", "+end.name, func(t *testing.T) {
				t.Parallel()
				r := newRing(t, servers.SharedEtcd(t), 3)
				first, u, last := r.queue[0], r.queue[1], r.queue[2]
				was := u.claim.State.(*entry).rev.Load()
				if !r.marked(first) {
					t.Fatal("not marked: this shows nothing")
				}
				if err := errors.Join(lost.do(r, u), end.do(r, first)); err != nil {
					t.Fatal(err)
				}
				r.queuesAnew(u, was, last)
			})
		}
	}
}

// TestHabitKeyDeletedUnseen: if nobody who saw the waiter's key released the lock, it is
// told as a holder is whose key is deleted.
func TestHabitKeyDeletedUnseen(t *testing.T) {
	t.Parallel()
	r := newRing(t, servers.SharedEtcd(t), 3)
	u := r.queue[1]
	lost := make(chan error, 1)
	u.claim.Lost = func(reason error) { lost <- reason }
	keep(t, u.b)
	if _, err := r.c.Delete(t.Context(), u.b.queueOf(t.Name()), clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	deleted := time.Now()
	g := <-u.granted
	held, err := r.c.Get(t.Context(), u.claim.State.(*entry).key)
	if err != nil || len(held.Kvs) == 1 && held.Kvs[0].CreateRevision == g.Token {
		return // it has queued anew
	}
	<-lost
	if took := time.Since(deleted); took > 3*time.Second { // a second, and what a busy machine adds
		t.Errorf("told after %v", took)
	}
}

// TestHabitOwnNext: a Locker that comes after itself marks nothing, and its release comes through.
func TestHabitOwnNext(t *testing.T) {
	t.Parallel()
	r := newRing(t, servers.SharedEtcd(t), 2)
	first, u := r.queue[0], r.queue[1]
	mine := claim(t.Name(), true)
	granted := begin(t, first.b, mine)
	queued(t, r.c, t.Name(), 3)
	u.giveUp()
	<-u.granted
	if err := u.b.Abandon(t.Context(), u.claim); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(first.b.Release(t.Context(), first.claim), <-granted, first.b.Release(t.Context(), mine)); err != nil {
		t.Error(err)
	}
}

// TestHabitByHand: what somebody writes by hand is no mark.
func TestHabitByHand(t *testing.T) {
	t.Parallel()
	r := newRing(t, servers.SharedEtcd(t), 3)
	key := r.queue[1].claim.State.(*entry).key
	if _, err := r.c.Put(t.Context(), key, "by hand", clientv3.WithIgnoreLease()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.c.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	r.queue[1].giveUp()
	r.queue = []*turn{r.queue[0], r.queue[2]}
	r.waits(r.queue[1])
	r.release()
}

// TestHabitOwnLease: nor is what writes a key under a lease of its own.
func TestHabitOwnLease(t *testing.T) {
	t.Parallel()
	r := newRing(t, servers.SharedEtcd(t), 2)
	first := r.release()
	next := r.queue[0]
	leased := claim(t.Name(), true)
	leased.Lease = true
	granted := begin(t, first, leased)
	queued(t, r.c, t.Name(), 2)
	if err := errors.Join(next.b.Release(t.Context(), next.claim), <-granted); err != nil {
		t.Fatal(err)
	}
	r.queue = []*turn{{b: first, claim: leased}}
	u := r.join(next.b)
	was := u.claim.State.(*entry).rev.Load()
	if _, err := r.c.Delete(t.Context(), u.claim.State.(*entry).key); err != nil {
		t.Fatal(err)
	}
	if err := first.Release(t.Context(), leased); err != nil {
		t.Fatal(err)
	}
	if g := <-u.granted; g.Token <= was {
		t.Errorf("granted %v, waited as %d", g, was)
	}
}

// TestHabitBroken: Lockers that come and go, give up, and end, as it comes, exclude each other, and
// the tokens grow. Between, they have time to become accustomed to each other.
func TestHabitBroken(t *testing.T) {
	t.Parallel()
	e := servers.NewEtcd(t, servers.EtcdOptions{})
	admin := dial(t, e.Addr())
	var holds atomic.Int32
	var last, grants, told atomic.Int64
	var wg sync.WaitGroup
	until := time.Now().Add(5 * time.Second)
	for range 6 {
		wg.Go(func() {
			for time.Now().Before(until) {
				b, _, err := open(admin, nil)
				if err != nil {
					t.Error(err)
					return
				}
				for n := 50 + rand.N(100); n > 0 && time.Now().Before(until); n-- {
					patience := time.Minute
					if rand.N(40) == 0 {
						patience = rand.N(10 * time.Millisecond)
					}
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					c := claim(t.Name(), true)
					g, err := b.Acquire(ctx, c)
					cancel()
					switch {
					case err != nil:
						err = b.Abandon(t.Context(), c)
					default:
						grants.Add(1)
						if c.State.(*entry).marked {
							told.Add(1)
						}
						if holds.Add(1) != 1 || last.Swap(g.Token) >= g.Token {
							t.Errorf("granted %v while another holds, or after", g)
						}
						holds.Add(-1)
						if rand.N(40) == 0 {
							err = b.Abandon(t.Context(), c)
						} else {
							err = b.Release(t.Context(), c)
						}
					}
					if err != nil {
						t.Error(err)
					}
				}
				if err := b.Close(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if told.Load() == 0 {
		t.Error("no habit has come about: this shows nothing")
	}
	t.Logf("%d grants, %d of marked keys", grants.Load(), told.Load())
	queued(t, admin, t.Name(), 0)
}

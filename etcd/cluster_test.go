package etcd

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/lateness"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/servers"
)

// successor waits for the one who had to wait for lock.
func successor(t testing.TB, lock *locker.Lock, next <-chan *locker.Lock) *locker.Lock {
	t.Helper()
	l := soon(t, "the next lock", next)
	if l == nil {
		t.FailNow()
	}
	if l.Token() <= lock.Token() {
		t.Errorf("token %d after %d", l.Token(), lock.Token())
	}
	return l
}

// follows waits for the one who had to wait for lock, who then gives it back.
func follows(t testing.TB, lock *locker.Lock, next <-chan *locker.Lock) {
	t.Helper()
	locktest.Release(t, successor(t, lock, next))
}

// TestSilentMember: the member that carries the watch of a waiter falls silent without
// closing the connection. The others can be reached, and the waiter gets on.
func TestSilentMember(t *testing.T) {
	t.Parallel()
	cluster := servers.NewEtcdCluster(t, 3, servers.EtcdOptions{})
	admin := dial(t, cluster.Addrs()...)
	ways, addrs := locktest.Fronts(t, cluster.Addrs())
	said := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	for i, way := range ways {
		name := t.Name() + string(rune('0'+i))
		holder := driverOf(t, admin)
		held := hold(t, holder, name)
		b := impatient(driverOf(t, dial(t, addrs...), locker.WithTTL(3*time.Second), locker.WithLogger(said)))
		renewing(t, b)
		granted := begin(t, b, claim(name, true))
		queueHas(t, admin, name, 2)
		way.Freeze()
		release(t, holder, held)
		must(t, soon(t, "the grant with a silent member", granted))
		way.Heal()
	}
}

// TestLeaderMoves: waiting is bounded although the leader moves again and again.
func TestLeaderMoves(t *testing.T) {
	t.Parallel()
	cluster := servers.NewEtcdCluster(t, 3, servers.EtcdOptions{})
	c := dial(t, cluster.Addrs()...)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var moved atomic.Int64
	over := make(chan struct{})
	go func() {
		defer close(over)
		for ; ctx.Err() == nil; moved.Add(1) {
			if err := cluster.MoveLeader(ctx, cluster.Members[moved.Load()%3]); err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
		}
	}()
	a, b := newLocker(t, c), newLocker(t, c)
	var last int64
	for begun := time.Now(); time.Since(begun) < 5*time.Second || moved.Load() < 3; {
		if time.Since(begun) > 3*time.Minute {
			t.Fatalf("the leader moved only %d times", moved.Load())
		}
		for _, l := range []locker.Locker{a, b} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			lock, err := l.Acquire(ctx, t.Name())
			cancel()
			must(t, err)
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
	<-over
}

// TestLeaderStopped: the leader stands still for longer than the TTL, and goes on. There are never two holders before it does; then
// it may revoke leases (etcd-io/etcd#15247), of the first and of the next, who are told so. Whoever holds after that really does.
func TestLeaderStopped(t *testing.T) {
	t.Parallel()
	cluster := servers.NewEtcdCluster(t, 3, servers.EtcdOptions{})
	c := dial(t, cluster.Addrs()...)
	a := newLocker(t, dial(t, cluster.Addrs()...), locker.WithTTL(20*time.Second))
	lock, err := a.Acquire(t.Context(), t.Name())
	must(t, err)
	b := newLocker(t, dial(t, cluster.Addrs()...), locker.WithTTL(20*time.Second))
	next := make(chan *locker.Lock, 1)
	var goesOn atomic.Bool
	go func() {
		l, err := b.Acquire(t.Context(), t.Name())
		if err != nil {
			t.Error(err)
		} else if lock.Context().Err() == nil && !goesOn.Load() {
			t.Error("granted while the first still believes that it holds")
		}
		next <- l
	}()
	queueHas(t, c, t.Name(), 2)
	leader, err := cluster.Leader(t.Context())
	must(t, err)
	must(t, leader.Pause())
	select {
	case <-lock.Context().Done(): // as may be: the new leader gives every lease its full TTL
	case <-time.After(23 * time.Second):
	}
	goesOn.Store(true)
	must(t, leader.Resume())
	if err := lock.Release(t.Context()); err != nil {
		t.Logf("release: %v", err)
	}
	last := successor(t, lock, next)
	if err := last.Release(t.Context()); err != nil { // lost, or not answered in time
		t.Logf("release: %v", err)
		next <- locktest.Acquire(t, b, t.Name())
		follows(t, last, next)
	}
}

// TestNoLeader: a member that has lost the others says so to who watches on it, and without a
// leader nobody hangs.
func TestNoLeader(t *testing.T) {
	t.Parallel()
	cluster := servers.NewEtcdCluster(t, 3, servers.EtcdOptions{})
	b := impatient(driverOf(t, dial(t, cluster.Members[0].Addr())))
	hold(t, b, t.Name())
	w := driverOf(t, b.client).watch("whatever") // which only the server ends
	if r := soon(t, "the watch", w.told); !r.Created {
		t.Fatalf("the watch said first: %+v", r)
	}
	must(t, servers.Each(cluster.Members[1:], (*servers.Etcd).Kill))
	for over := false; !over; {
		select {
		case <-w.told: // as it says why
		case <-w.stream.Done():
			over = true
		case <-time.After(time.Minute):
			t.Fatal("the watch does not end")
		}
	}
	eventually.Is(t, "an acquisition to say that there is no leader", func() bool {
		inTime := locktest.Limit(t, 5*time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err := b.Acquire(ctx, claim(t.Name()+"2", false))
		inTime("an acquisition without a leader")
		said := err != nil && strings.Contains(err.Error(), "no leader")
		// A member that does not answer in time has not said why.
		if !said && !errors.Is(err, errSilence) && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("acquire without a quorum: %v", err)
		}
		return said || t.Failed()
	})
}

// TestLeaderDies: what other members passed on to a leader that dies is asked again, long before
// etcd gives up after 7 s.
func TestLeaderDies(t *testing.T) {
	t.Parallel()
	var took time.Duration
	for range 5 { // another member that stands still makes it longer
		if took = acquireWhileLeaderDies(t); took <= 5*time.Second {
			return
		}
	}
	t.Errorf("an acquisition took %v", took)
}

// acquireWhileLeaderDies returns how long an acquisition takes, less what this machine is late by.
func acquireWhileLeaderDies(t *testing.T) time.Duration {
	late, giveBack := lateness.Share()
	defer giveBack()
	cluster := servers.NewEtcdCluster(t, 3, servers.EtcdOptions{Args: []string{"--heartbeat-interval", "50", "--election-timeout", "500"}})
	leader, err := cluster.Leader(t.Context())
	must(t, err)
	var others []string
	for _, m := range cluster.Members {
		if m != leader {
			others = append(others, m.Addr())
		}
	}
	l := newLocker(t, dial(t, others...))
	_, err = l.Acquire(t.Context(), t.Name())
	must(t, err)
	must(t, leader.Pause()) // a dead one would close its connections
	begun := time.Now()
	_, err = l.Acquire(t.Context(), t.Name()+"2")
	took := time.Since(begun) - late.Slack(begun)
	must(t, err, leader.Resume())
	return took
}

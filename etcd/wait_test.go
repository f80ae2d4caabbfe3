package etcd

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/servers"
)

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
		begun := time.Now()
		granted := begin(t, b, claim(name, true))
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
		waiting := next(t, lockers[(i+1)%len(lockers)], t.Name())
		queued(t, admin, t.Name(), 2)
		begin := time.Now()
		if err := lock.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if lock = <-waiting; lock == nil {
			t.FailNow()
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	if median := took[len(took)/2]; median > 50*time.Millisecond {
		t.Errorf("half of the hand-overs took longer than %v: %v", median, took)
	}
}

// TestGivesUpInBetween: who waits behind one that gives up waits for the one before that,
// and is not taken for the first because a key has gone.
func TestGivesUpInBetween(t *testing.T) {
	t.Parallel()
	c := dial(t, servers.SharedEtcd(t).Addr())
	holder, quitter, last := driverOf(t, c), driverOf(t, c), driverOf(t, c)
	held := take(t, holder, t.Name())
	ctx, cancel := context.WithCancel(t.Context())
	gone, given := claim(t.Name(), true), make(chan error, 1)
	go func() { _, err := quitter.Acquire(ctx, gone); given <- err }()
	queued(t, c, t.Name(), 2)
	waiter := claim(t.Name(), true)
	granted := begin(t, last, waiter)
	keys := queued(t, c, t.Name(), 3)
	watched := func(key string) func() bool {
		return func() bool {
			s := last.watches.usable()
			if s == nil {
				return false
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			w := s.byKey[key]
			return w != nil && w.id >= 0 && len(w.taps) > 0
		}
	}
	eventually.Is(t, "watch of the one directly ahead", watched(keys[1]))
	cancel()
	if err := <-given; err == nil {
		t.Fatal("granted although it is held")
	}
	if err := quitter.Abandon(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	eventually.Is(t, "watch of the next", watched(keys[0]))
	if len(granted) > 0 {
		t.Fatalf("granted while another holds: %v", <-granted)
	}
	if err := errors.Join(holder.Release(t.Context(), held), <-granted); err != nil {
		t.Error(err)
	}
}

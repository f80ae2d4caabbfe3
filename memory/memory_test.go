package memory

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, s *Store, opts ...locker.Option) locker.Locker {
	t.Helper()
	l, err := s.Locker(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(context.Background()) })
	return l
}

func remote(t *testing.T, s *Store, opts ...locker.Option) (locker.Locker, *Link) {
	t.Helper()
	l, link, err := s.Remote(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		link.Heal()
		l.Close(context.Background())
	})
	return l, link
}

func look(s *Store, name string) []driver.Position {
	s.lock()
	defer s.unlock()
	return s.positions(name)
}

func acquire(t *testing.T, l locker.Locker, name string, opts ...locker.AcquireOption) *locker.Lock {
	t.Helper()
	lock, err := l.Acquire(context.Background(), name, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

func TestDestroyTellsHolder(t *testing.T) {
	s := NewStore()
	a, b := open(t, s), open(t, s)
	first := acquire(t, a, "x")
	if s.Destroy("y") || !s.Destroy("x") {
		t.Error("Destroy does not say whether the name was held")
	}
	<-first.Context().Done()
	if !errors.Is(context.Cause(first.Context()), locker.ErrLost) {
		t.Error(context.Cause(first.Context()))
	}
	second := acquire(t, b, "x")
	_ = first.Release(context.Background())
	if second.Context().Err() != nil || s.Len() != 1 {
		t.Error("the successor lost its lock")
	}
}

// An operator sees who holds what, and for how long.
func TestHolders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore(locker.WithOwner("worker 7"))
		lock := acquire(t, open(t, s), "x", locker.WithLease(time.Minute))
		shared := acquire(t, open(t, s), "y", locker.Shared())
		got := s.Holders()
		for i := range got {
			got[i].ID, got[i].Since = "", time.Time{}
		}
		want := []driver.Position{
			{Name: "x", Owner: "worker 7", Weight: driver.All, Limit: driver.All, Held: true, Token: lock.Token(), Left: time.Minute},
			{Name: "y", Owner: "worker 7", Weight: 1, Limit: driver.All, Held: true, Token: shared.Token(), Left: locker.DefaultTTL},
		}
		if !slices.Equal(got, want) {
			t.Errorf("%+v", got)
		}
	})
}

func TestLeaseEndsWithoutAnyone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore()
		l := open(t, s)
		lock := acquire(t, l, "x", locker.WithLease(time.Second))
		<-lock.Context().Done()
		time.Sleep(time.Second)
		if s.Len() != 0 || len(s.Holders()) != 0 {
			t.Errorf("still there: %v", s.Holders())
		}
	})
}

func TestForgottenNamesAreSwept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore()
		d := s.Driver(s.clock)
		for range 5 {
			for i := range 3000 {
				c := &driver.Claim{Name: string(rune('A' + i)), TTL: time.Second}
				if _, err := d.Acquire(t.Context(), c); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(2 * time.Second)
		}
		if n := len(s.queues); n > 5000 {
			t.Errorf("%d names whose leases are over", n)
		}
	})
}

func TestSharedAndExclusiveInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore()
		first := acquire(t, open(t, s), "x")
		who := []string{"r1", "r2", "w", "r3"}
		locks := make([]*locker.Lock, len(who))
		for i, name := range who {
			var opts []locker.AcquireOption
			if name[0] == 'r' {
				opts = append(opts, locker.Shared())
			}
			l := open(t, s)
			go func() { locks[i] = acquire(t, l, "x", opts...) }()
			synctest.Wait()
		}
		released := func(l *locker.Lock, want ...string) {
			t.Helper()
			if err := l.Release(t.Context()); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			var hold []string
			for i, l := range locks {
				if l != nil && l.Context().Err() == nil {
					hold = append(hold, who[i])
				}
			}
			if !slices.Equal(hold, want) || len(s.Holders()) != len(want) {
				t.Errorf("%v hold, %d by the store's word, want %v", hold, len(s.Holders()), want)
			}
		}
		released(first, "r1", "r2")
		released(locks[0], "r2")
		released(locks[1], "w")
		released(locks[2], "r3")
		released(locks[3])
		if s.Len() != 0 {
			t.Error("left over")
		}
	})
}

// slow runs at half the rate of the store's clock, from another origin.
type slow struct{ from time.Time }

func (s slow) Now() driver.Instant {
	return driver.Instant(time.Since(s.from)/2 + 1000*time.Hour)
}

func TestLockerWithAnotherClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore()
		l := open(t, s, locker.WithClock(slow{time.Now()}))
		lock := acquire(t, l, "x", locker.WithLease(10*time.Second))
		if left := time.Until(lock.Deadline()); left < 9*time.Second || left > 10*time.Second {
			t.Errorf("deadline in %v", left)
		}
	})
}

func TestBadOptions(t *testing.T) {
	if _, err := New(locker.WithTTL(-1)); !errors.Is(err, locker.ErrInvalidOption) {
		t.Error(err)
	}
	foreign := locker.BackendOption(func(*struct{ X int }) error { return nil })
	if _, err := New(foreign); !errors.Is(err, locker.ErrInvalidOption) {
		t.Error(err)
	}
	s := NewStore(locker.WithTTL(0))
	if _, _, err := s.Remote(); !errors.Is(err, locker.ErrInvalidOption) {
		t.Error(err)
	}
	if s.Len() != 0 || s.Destroy("x") || look(s, "x") != nil {
		t.Error("not empty")
	}
}

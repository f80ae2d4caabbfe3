package memory

import (
	"context"
	"errors"
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

func acquire(t *testing.T, l locker.Locker, name string, opts ...locker.AcquireOption) *locker.Lock {
	t.Helper()
	lock, err := l.Acquire(context.Background(), name, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

func TestTakeoverOfLockerThatIsCutOff(t *testing.T) {
	for what, cut := range map[string]func(*Link){
		"cut":    func(l *Link) { l.Cut(nil) },
		"frozen": (*Link).Freeze,
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := NewStore(locker.WithTTL(10 * time.Second))
				a, link := remote(t, s)
				b := open(t, s)
				first := acquire(t, a, "x")
				time.Sleep(time.Minute) // renewed all the time
				if err := first.Context().Err(); err != nil {
					t.Fatalf("lost although it was renewed: %v", context.Cause(first.Context()))
				}
				cut(link)
				start := time.Now()
				second := acquire(t, b, "x")
				if took := time.Since(start); took > 10*time.Second || took < 6*time.Second {
					t.Errorf("takeover took %v", took)
				}
				if first.Context().Err() == nil || !errors.Is(context.Cause(first.Context()), locker.ErrLost) {
					t.Errorf("first holder: %v", context.Cause(first.Context()))
				}
				if second.Token() <= first.Token() {
					t.Errorf("tokens %d, %d", first.Token(), second.Token())
				}
				if err := first.Release(context.Background()); !errors.Is(err, locker.ErrLost) {
					t.Errorf("release of the lost lock: %v", err)
				}
				if h := s.Holders(); len(h) != 1 || h[0].Token != second.Token() {
					t.Errorf("holders: %+v", h)
				}
			})
		})
	}
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
		if n := len(s.names); n > 5000 {
			t.Errorf("%d names whose leases are over", n)
		}
	})
}

func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore(locker.WithTTL(10 * time.Second))
		a, b := open(t, s), open(t, s)
		first := acquire(t, a, "x")
		gone := errors.New("gone fishing")
		s.Fail(gone)
		if _, err := b.TryAcquire(t.Context(), "y"); !errors.Is(err, gone) {
			t.Errorf("try: %v", err)
		}
		got := make(chan *locker.Lock)
		go func() { got <- acquire(t, b, "x") }()
		synctest.Wait()
		if first.Context().Err() != nil {
			t.Error("lost at once")
		}
		<-first.Context().Done()
		synctest.Wait()
		time.Sleep(time.Minute)
		select {
		case <-got:
			t.Error("granted by a store that is away")
		default:
		}
		s.Heal()
		second := <-got
		if second.Token() <= first.Token() {
			t.Error("token")
		}
	})
}

func TestRepliesLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore(locker.WithTTL(time.Hour))
		l, link := remote(t, s)
		link.Mute()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.Acquire(ctx, "x"); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		link.Heal()
		synctest.Wait()
		time.Sleep(30 * time.Second) // the clean-up that hangs is given up and tried again
		if s.Len() != 0 {
			t.Errorf("left: %+v", s.Holders())
		}
	})
}

// A release that the store does not answer is bounded by its ctx, then by the
// lease, and is done when the store is back.
func TestReleaseOverDeadLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore(locker.WithTTL(time.Hour))
		l, link := remote(t, s)
		for _, breakIt := range []func(){link.Freeze, func() { link.Cut(nil) }, link.Mute} {
			a, b := acquire(t, l, "a"), acquire(t, l, "b")
			breakIt()
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := a.Release(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			cancel()
			if took := time.Since(start); took > 1100*time.Millisecond {
				t.Errorf("ctx of 1s, returned after %v", took)
			}
			start = time.Now()
			if err := b.Release(context.Background()); err == nil {
				t.Error("released over a dead link")
			}
			if took := time.Since(start); took > 7*time.Second {
				t.Errorf("no ctx: returned after %v", took)
			}
			link.Heal()
			time.Sleep(30 * time.Second)
			if s.Len() != 0 {
				t.Errorf("left: %+v", s.Holders())
			}
		}
	})
}

func TestSharedAndExclusiveInOrder(t *testing.T) {
	s := NewStore()
	var order []string
	granted := make(chan string)
	locks := make(chan *locker.Lock, 8)
	first := acquire(t, open(t, s), "x")
	for i, who := range []string{"r1", "r2", "w", "r3"} {
		l := open(t, s)
		var opts []locker.AcquireOption
		if who[0] == 'r' {
			opts = append(opts, locker.Shared())
		}
		go func() {
			locks <- acquire(t, l, "x", opts...)
			granted <- who
		}()
		for s.Waiting("x") != i+1 {
			time.Sleep(time.Millisecond)
		}
	}
	_ = first.Release(t.Context())
	a, b := <-granted, <-granted
	if a > b {
		a, b = b, a
	}
	order = append(order, a, b)
	if n := len(s.Holders()); n != 2 || s.Waiting("x") != 2 {
		t.Errorf("%d holders, %d waiting", n, s.Waiting("x"))
	}
	for range 4 {
		_ = (<-locks).Release(t.Context())
		if len(order) < 4 && len(locks) == 0 {
			order = append(order, <-granted)
		}
	}
	if got := order; len(got) != 4 || got[0] != "r1" || got[1] != "r2" || got[2] != "w" || got[3] != "r3" {
		t.Errorf("order %v", got)
	}
	if s.Len() != 0 {
		t.Error("left over")
	}
}

func TestWaiterOutOfReachKeepsNobodyWaiting(t *testing.T) {
	s := NewStore()
	first := acquire(t, open(t, s), "x")
	away, link := remote(t, s)
	late := make(chan *locker.Lock)
	go func() { late <- acquire(t, away, "x") }()
	for s.Waiting("x") != 1 {
		time.Sleep(time.Millisecond)
	}
	link.Freeze()
	next := make(chan *locker.Lock)
	l := open(t, s)
	go func() { next <- acquire(t, l, "x") }()
	for s.Waiting("x") != 2 {
		time.Sleep(time.Millisecond)
	}
	_ = first.Release(t.Context())
	second := <-next
	link.Heal()
	_ = second.Release(t.Context())
	_ = (<-late).Release(t.Context())
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
	foreign := locker.BackendOption(func(*struct{ X int }) {})
	if _, err := New(foreign); !errors.Is(err, locker.ErrInvalidOption) {
		t.Error(err)
	}
	s := NewStore(locker.WithTTL(0))
	if _, _, err := s.Remote(); !errors.Is(err, locker.ErrInvalidOption) {
		t.Error(err)
	}
	if s.Len() != 0 || s.Destroy("x") || s.Waiting("x") != 0 {
		t.Error("not empty")
	}
}

package memory

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
)

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

func TestWaiterOutOfReachKeepsNobodyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore()
		first := acquire(t, open(t, s), "x")
		queue := func(l locker.Locker) chan *locker.Lock {
			got := make(chan *locker.Lock)
			go func() { got <- acquire(t, l, "x") }()
			synctest.Wait()
			return got
		}
		away, link := remote(t, s)
		late := queue(away)
		link.Freeze()
		next := queue(open(t, s))
		if n := len(look(s, "x")); n != 3 {
			t.Errorf("%d in the queue, want 3", n)
		}
		_ = first.Release(t.Context())
		second := <-next
		link.Heal()
		synctest.Wait()
		if q := look(s, "x"); len(q) != 2 || q[0].Token != second.Token() || q[1].Held {
			t.Errorf("the waiter is back: %+v", q)
		}
		last := queue(open(t, s))
		_ = second.Release(t.Context())
		_ = (<-late).Release(t.Context())
		_ = (<-last).Release(t.Context())
	})
}

// A waiter whose grant was held back until it was over asks again.
func TestGrantHeldBackTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore()
		link := &Link{store: s}
		a, b := exclusive(), exclusive()
		<-take(t, over(&Link{store: s}), a)
		got := take(t, over(link), b)
		link.Mute()
		must(t, over(&Link{store: s}).Release(t.Context(), a))
		held(t, s, map[*driver.Claim]bool{b: true})
		time.Sleep(time.Minute)
		link.Heal()
		if g := <-got; g.Token != 3 || g.Until.Sub(locker.TimeClock{}.Now()) != b.TTL {
			t.Errorf("%+v", g)
		}
	})
}

// Waiters who come while the store is away and those who were there go on in order.
func TestOrderSurvivesOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore()
		d := over(&Link{store: s})
		first, second, third := exclusive(), exclusive(), exclusive()
		<-take(t, d, first)
		got2, got3 := take(t, d, second), take(t, d, third)
		s.Fail(nil)
		late := exclusive()
		got4 := take(t, d, late)
		time.Sleep(time.Minute)
		if len(look(s, "x")) != 2 || len(s.Holders()) != 0 {
			t.Errorf("during the outage: %+v", look(s, "x"))
		}
		s.Heal()
		<-got2
		must(t, d.Release(t.Context(), second))
		<-got3
		must(t, d.Release(t.Context(), third))
		<-got4
	})
}

// Who gives up while the link is broken hears what is wrong with it.
func TestErrorNamesTheFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore()
		link := &Link{store: s}
		d := over(link)
		<-take(t, d, exclusive())
		away := errors.New("away")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		time.AfterFunc(time.Millisecond, func() { link.Cut(away) })
		if _, err := d.Acquire(ctx, exclusive()); !errors.Is(err, away) {
			t.Error(err)
		}
	})
}

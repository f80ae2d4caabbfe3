package locker

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// slowly is a slog.Handler that takes its time.
type slowly struct {
	slog.Handler
	takes time.Duration
}

func (h slowly) Enabled(context.Context, slog.Level) bool { return true }
func (h slowly) Handle(context.Context, slog.Record) error {
	time.Sleep(h.takes)
	return nil
}

// claims has s hand out the claims that it is asked for.
func claims(s *script, clock driver.Clock) <-chan *driver.Claim {
	seen := make(chan *driver.Claim, 100)
	ok := grant(clock)
	s.acquire = func(ctx context.Context, c *driver.Claim) (driver.Grant, error) {
		seen <- c
		return ok(ctx, c)
	}
	return seen
}

// Promises 5 and 15: what follows from a loss is under way until it is done, however slow
// a log handler is: Close waits for it, and the driver is not closed before.
func TestCloseWaitsForLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{abandon: func(context.Context, *driver.Claim) error {
			time.Sleep(10 * time.Millisecond)
			return nil
		}}
		seen := claims(s, TimeClock{})
		l := open(t, s, WithLogger(slog.New(slowly{slog.DiscardHandler, 300 * time.Millisecond})))
		lock := acquire(t, l, "x")
		go (<-seen).Lost(errBroken)
		<-lock.Context().Done()
		closeAll(t, l)
		if n := len(s.calls); n < 2 || s.calls[n-2] != "abandon x" || s.calls[n-1] != "close" {
			t.Errorf("calls: %v", s.calls)
		}
	})
}

// Claim.Lost does not block whoever calls it, which may be the goroutine that reads the
// connection: not for the log, nor for the observer, nor for the cleanup.
func TestLostDoesNotBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{abandon: func(context.Context, *driver.Claim) error { time.Sleep(time.Second); return nil }}
		seen := claims(s, TimeClock{})
		told := make(chan *Lock, 1)
		l := open(t, s, WithLogger(slog.New(slowly{slog.DiscardHandler, time.Second})), WithObserver(&Observer{
			Lost: func(lock *Lock, _ error) { time.Sleep(time.Second); told <- lock },
		}))
		lock := acquire(t, l, "x")
		begin := time.Now()
		(<-seen).Lost(errBroken)
		if took := time.Since(begin); took > 0 {
			t.Errorf("blocked for %v", took)
		}
		if <-told != lock || !errors.Is(context.Cause(lock.Context()), ErrLost) {
			t.Error("the observer was told of another lock")
		}
		closeAll(t, l)
	})
}

// Promise 3: a server that once says too much, such as after somebody has set the time of a
// key by hand, is not believed beyond the TTL, neither at the grant nor at a renewal.
func TestDeadlineIsAtMostATTLAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 3 * time.Second
		s := &script{
			acquire: func(context.Context, *driver.Claim) (driver.Grant, error) {
				return driver.Grant{Token: 1, Until: TimeClock{}.Now().Add(time.Hour)}, nil
			},
			renew: func(_ context.Context, claims []*driver.Claim, report func(*driver.Claim, driver.Instant, error)) {
				report(claims[0], TimeClock{}.Now().Add(time.Hour), nil)
			},
		}
		l := open(t, s, WithTTL(ttl))
		lock := acquire(t, l, "x")
		for range 2 {
			if left := time.Until(lock.Deadline()); left > ttl {
				t.Errorf("the deadline is %v away", left)
			}
			time.Sleep(ttl)
			if lock.Context().Err() != nil {
				t.Fatal(context.Cause(lock.Context()))
			}
		}
		closeAll(t, l)
	})
}

// A renewal that says that less time is left than was thought is believed.
func TestDeadlineMayMoveEarlier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 30 * time.Second
		var renewed atomic.Int64
		s := &script{renew: func(_ context.Context, claims []*driver.Claim, report func(*driver.Claim, driver.Instant, error)) {
			if renewed.Add(1) == 1 {
				report(claims[0], TimeClock{}.Now().Add(2*time.Second), nil)
			}
		}}
		l := open(t, s, WithTTL(ttl))
		lock := acquire(t, l, "x")
		begin := time.Now()
		<-lock.Context().Done()
		if took := time.Since(begin); took > ttl/3+2*time.Second {
			t.Errorf("lost only after %v", took)
		}
		closeAll(t, l)
	})
}

// The margin is two parts in a hundred of a short TTL and little of a long one.
func TestMargin(t *testing.T) {
	for ttl, most := range map[time.Duration]time.Duration{
		MinTTL:           10 * time.Millisecond,
		15 * time.Second: 305 * time.Millisecond,
		time.Hour:        3 * time.Second,
		MaxTTL:           45 * time.Second,
	} {
		if m := margin(ttl); m <= 0 || m > most {
			t.Errorf("margin of %v is %v, want at most %v", ttl, m, most)
		}
	}
}

// Holders with a lease of their own are confirmed where the backend learns only by asking
// that a lock was destroyed, and never extended.
func TestLeaseIsConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var destroyed atomic.Bool
		s := &script{
			traits: driver.Traits{Check: 500 * time.Millisecond},
			renew: func(_ context.Context, claims []*driver.Claim, report func(*driver.Claim, driver.Instant, error)) {
				for _, c := range claims {
					if destroyed.Load() {
						report(c, 0, driver.ErrGone)
					} else {
						report(c, TimeClock{}.Now().Add(time.Hour), nil)
					}
				}
			},
		}
		l := open(t, s)
		lock := acquire(t, l, "x", WithLease(5*time.Second))
		begin := time.Now()
		<-lock.Context().Done()
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("a lease of 5s was held for %v", took)
		}
		lock = acquire(t, l, "y", WithLease(time.Minute))
		destroyed.Store(true)
		begin = time.Now()
		<-lock.Context().Done()
		if took := time.Since(begin); took > time.Second {
			t.Errorf("told of the destruction after %v", took)
		}
		closeAll(t, l)
	})
}

// Do says that the lock was lost also when fn says something else.
func TestDoTellsLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, &script{}, WithTTL(3*time.Second))
		for what, fn := range map[string]func(context.Context, *Lock) error{
			"the context's error": func(ctx context.Context, _ *Lock) error { <-ctx.Done(); return ctx.Err() },
			"its own error":       func(ctx context.Context, _ *Lock) error { <-ctx.Done(); return errBroken },
			"the cause":           func(ctx context.Context, _ *Lock) error { <-ctx.Done(); return context.Cause(ctx) },
		} {
			said := error(nil)
			err := Do(context.Background(), l, what, func(ctx context.Context, lock *Lock) error {
				said = fn(ctx, lock)
				return said
			})
			if !errors.Is(err, ErrLost) || !errors.Is(err, said) {
				t.Errorf("fn returned %s, Do returned %v", what, err)
			}
		}
		closeAll(t, l)
	})
}

// A renewal that was sent before another and answered after it does not move the deadline back.
func TestRenewalsOutOfOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 3 * time.Second
		var renewed atomic.Int64
		s := &script{renew: func(_ context.Context, claims []*driver.Claim, report func(*driver.Claim, driver.Instant, error)) {
			until := TimeClock{}.Now().Add(ttl)
			if renewed.Add(1) == 1 {
				time.Sleep(ttl/3 + 100*time.Millisecond)
			}
			report(claims[0], until, nil)
		}}
		l := open(t, s, WithTTL(ttl))
		lock := acquire(t, l, "x")
		time.Sleep(2*ttl/3 + 50*time.Millisecond)
		before := lock.Deadline()
		time.Sleep(100 * time.Millisecond)
		if after := lock.Deadline(); after.Before(before) {
			t.Errorf("the deadline moved back by %v", before.Sub(after))
		}
		closeAll(t, l)
	})
}

// Wanted is closed when the driver says that others wait, whoever asks first, and not before.
func TestWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{}
		seen := claims(s, TimeClock{})
		l := open(t, s)
		isClosed := func(c <-chan struct{}) bool {
			select {
			case <-c:
				return true
			default:
				return false
			}
		}
		for _, askFirst := range []bool{true, false} {
			lock := acquire(t, l, "x")
			if askFirst && isClosed(lock.Wanted()) {
				t.Error("nobody waits")
			}
			claim := <-seen
			claim.Wanted()
			claim.Wanted()
			if !isClosed(lock.Wanted()) {
				t.Errorf("asked before %v: not told", askFirst)
			}
			_ = lock.Release(t.Context())
		}
		closeAll(t, l)
	})
}

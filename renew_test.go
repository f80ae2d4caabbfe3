package locker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// Promise 3: a renewal that hangs does not hide the loss.
func TestLostAtDeadlineWhileRenewalHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{renew: func(ctx context.Context, _ []*driver.Claim, _ func(*driver.Claim, driver.Instant, error)) {
			<-ctx.Done()
			time.Sleep(time.Minute) // a client library that does not know of ctx
		}}
		l := open(t, s, WithTTL(3*time.Second))
		begin := time.Now()
		lock := acquire(t, l, "x")
		<-lock.Context().Done()
		if took := time.Since(begin); took > 3*time.Second || took < 2900*time.Millisecond {
			t.Errorf("lost after %v, want a little before 3s", took)
		}
		if cause := context.Cause(lock.Context()); !errors.Is(cause, ErrLost) {
			t.Errorf("cause is %v", cause)
		}
		if err := lock.Release(context.Background()); !errors.Is(err, ErrLost) {
			t.Errorf("Release after loss: %v", err)
		}
		time.Sleep(time.Minute) // the renewal comes back
		closeAll(t, l)
	})
}

// A lock is renewed for as long as it is held, with one call for all of them.
func TestRenewsManyInOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := TimeClock{}
		var most atomic.Int64
		s := &script{renew: func(_ context.Context, claims []*driver.Claim, report func(*driver.Claim, driver.Instant, error)) {
			most.Store(max(most.Load(), int64(len(claims))))
			for _, c := range claims {
				report(c, clock.Now().Add(c.TTL), nil)
			}
		}}
		l := open(t, s, WithTTL(3*time.Second))
		locks := acquireMany(t, l, 100)
		time.Sleep(time.Minute)
		synctest.Wait() // a renewal may be due at this very moment
		for _, lock := range locks {
			if err := lock.Context().Err(); err != nil {
				t.Fatalf("%s: %v, %v", lock.Name(), err, context.Cause(lock.Context()))
			}
		}
		if most.Load() != 100 {
			t.Errorf("at most %d locks renewed in one call, want 100", most.Load())
		}
		if n := s.count("renew"); n < 59 || n > 62 {
			t.Errorf("%d renewals in a minute with a TTL of 3s, want 60", n)
		}
		for _, lock := range locks {
			if err := lock.Release(context.Background()); err != nil {
				t.Error(err)
			}
		}
		n := s.count("renew")
		time.Sleep(time.Minute)
		if s.count("renew") != n {
			t.Error("renewed with nothing held")
		}
		closeAll(t, l)
	})
}

// Where servers get through with a fifth of the locks in each renewal, it is a different fifth each time, and none is lost.
func TestLeastTimeLeftIsRenewedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := TimeClock{}
		s := &script{renew: func(_ context.Context, claims []*driver.Claim, report func(*driver.Claim, driver.Instant, error)) {
			for _, c := range claims[:(len(claims)+4)/5] {
				report(c, clock.Now().Add(c.TTL), nil)
			}
		}}
		l := open(t, s, WithTTL(3*time.Second))
		locks := acquireMany(t, l, 100)
		time.Sleep(time.Minute)
		for _, lock := range locks {
			if lock.Context().Err() != nil {
				t.Errorf("%s: %v", lock.Name(), context.Cause(lock.Context()))
			}
		}
		closeAll(t, l)
	})
}

// A renewal that failed is tried again before the deadline.
func TestRenewalIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := TimeClock{}
		fail := 3
		s := &script{renew: func(_ context.Context, claims []*driver.Claim, report func(*driver.Claim, driver.Instant, error)) {
			if fail--; fail >= 0 {
				report(claims[0], 0, errBroken)
				return
			}
			report(claims[0], clock.Now().Add(claims[0].TTL), nil)
		}}
		l := open(t, s, WithTTL(3*time.Second))
		lock := acquire(t, l, "x")
		time.Sleep(10 * time.Second)
		if err := lock.Context().Err(); err != nil {
			t.Error(context.Cause(lock.Context()))
		}
		closeAll(t, l)
	})
}

// A lock that took long to take, so that little of its time is left when it is granted, is
// renewed before that is over: with nothing held before, and with others whose turn comes later.
func TestSlowGrantIsRenewedSoon(t *testing.T) {
	test := func(among int) func(t *testing.T) {
		return func(t *testing.T) {
			clock := TimeClock{}
			slow := false
			s := &script{
				acquire: func(_ context.Context, c *driver.Claim) (driver.Grant, error) {
					sent := clock.Now()
					if slow {
						time.Sleep(2400 * time.Millisecond)
					}
					return driver.Grant{Token: 1, Until: sent.Add(c.TTL)}, nil
				},
				renew: func(_ context.Context, claims []*driver.Claim, report func(*driver.Claim, driver.Instant, error)) {
					for _, c := range claims {
						report(c, clock.Now().Add(c.TTL), nil)
					}
				},
			}
			l := open(t, s, WithTTL(3*time.Second))
			acquireMany(t, l, among)
			slow = true
			lock := acquire(t, l, "x")
			time.Sleep(10 * time.Second)
			if lock.Context().Err() != nil {
				t.Error(context.Cause(lock.Context()))
			}
			closeAll(t, l)
		}
	}
	for name, among := range map[string]int{"alone": 0, "among others": 1} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, test(among)) })
	}
}

// Grants with little time left do not make a storm of renewals.
func TestSlowGrantsAreRenewedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := TimeClock{}
		s := &script{
			acquire: func(context.Context, *driver.Claim) (driver.Grant, error) {
				return driver.Grant{Token: 1, Until: clock.Now().Add(time.Second)}, nil
			},
			renew: func(_ context.Context, claims []*driver.Claim, report func(*driver.Claim, driver.Instant, error)) {
				for _, c := range claims {
					report(c, clock.Now().Add(c.TTL), nil)
				}
			},
		}
		l := open(t, s, WithTTL(3*time.Second))
		for i := range 1000 {
			acquire(t, l, fmt.Sprint(i))
			time.Sleep(time.Millisecond)
		}
		if n := s.count("renew"); n < 3 || n > 4 {
			t.Errorf("%d renewals in a second with a TTL of 3s, want one every 250ms", n)
		}
		closeAll(t, l)
	})
}

// A lock that could not be renewed says why, but not so that the error of a renewal is
// taken for one of the caller's context.
func TestLossSaysWhyNotRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{renew: func(_ context.Context, claims []*driver.Claim, report func(*driver.Claim, driver.Instant, error)) {
			report(claims[0], 0, fmt.Errorf("%w: %w", errBroken, context.DeadlineExceeded))
		}}
		l := open(t, s, WithTTL(3*time.Second))
		lock := acquire(t, l, "x")
		<-lock.Context().Done()
		cause := context.Cause(lock.Context())
		if !errors.Is(cause, ErrLost) || !strings.Contains(cause.Error(), errBroken.Error()) {
			t.Errorf("cause %q does not name %q", cause, errBroken)
		}
		if errors.Is(cause, context.DeadlineExceeded) {
			t.Errorf("cause %q passes for the end of a context", cause)
		}
		closeAll(t, l)
	})
}

// A lock whose time is over sooner than that of those held already is not told late.
func TestShortLeaseAmongLongOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{}
		l := open(t, s, WithTTL(4*time.Second))
		acquire(t, l, "long")
		for _, lease := range []time.Duration{300 * time.Millisecond, MinTTL, 400 * time.Millisecond} {
			begin := time.Now()
			lock := acquire(t, l, "short", WithLease(lease))
			<-lock.Context().Done()
			if took := time.Since(begin); took > lease {
				t.Errorf("a lease of %v was lost after %v", lease, took)
			}
		}
		if n := s.count("renew"); n > 0 {
			t.Errorf("%d renewals, though nothing that is renewed was due", n)
		}
		closeAll(t, l)
	})
}

// What is done about the loss of one lock does not keep the holder of another from
// learning of its own.
func TestLossesDoNotDelayEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		written := make(chan struct{})
		l := open(t, &script{}, WithTTL(time.Minute), WithLogger(slog.New(slowHandler{written})))
		const locks = 3
		ended := make(chan struct{}, locks)
		for i := range locks {
			lock := acquire(t, l, fmt.Sprint(i), WithLease(time.Second))
			done := lock.Context().Done()
			go func() {
				<-done
				ended <- struct{}{}
			}()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if len(ended) != locks {
			t.Errorf("%d of %d holders have learned of their loss", len(ended), locks)
		}
		for range locks {
			written <- struct{}{}
		}
		closeAll(t, l)
	})
}

// slowHandler writes one record for each that is asked for.
type slowHandler struct{ written chan struct{} }

func (slowHandler) Enabled(context.Context, slog.Level) bool    { return true }
func (h slowHandler) Handle(context.Context, slog.Record) error { <-h.written; return nil }
func (h slowHandler) WithAttrs([]slog.Attr) slog.Handler        { return h }
func (h slowHandler) WithGroup(string) slog.Handler             { return h }

// A lock that Close has not come to yet is lost at its deadline like any other.
func TestLostDuringClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{
			traits:  driver.Traits{Prompt: true},
			release: func(ctx context.Context, _ *driver.Claim) error { <-ctx.Done(); return ctx.Err() },
		}
		l := open(t, s, WithTTL(30*time.Second))
		begin := time.Now()
		ended := make(chan time.Duration, 100)
		for i := range cap(ended) {
			lock := acquire(t, l, fmt.Sprint(i), WithLease(7*time.Second))
			go func() {
				<-lock.Context().Done()
				ended <- time.Since(begin)
			}()
		}
		_ = l.Close(context.Background())
		for range cap(ended) {
			if took := <-ended; took > 7*time.Second {
				t.Fatalf("lost after %v", took)
			}
		}
	})
}

// WithLease: not renewed, lost when it is over, and freed on the server.
func TestLeaseIsNotRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{}
		l := open(t, s, WithTTL(3*time.Second))
		lock := acquire(t, l, "x", WithLease(time.Minute))
		begin := time.Now()
		<-lock.Context().Done()
		if took := time.Since(begin); took > time.Minute || took < 58*time.Second {
			t.Errorf("lost after %v, want a minute", took)
		}
		synctest.Wait()
		if s.count("renew") != 0 || s.count("abandon x") != 1 {
			t.Errorf("calls: %v", s.calls)
		}
		closeAll(t, l)
	})
}

// AtLeast is kept also by a lease that is lost a margin before.
func TestAtLeastOutlastsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s := openLingering(t)
		lock := acquire(t, l, "x", WithLease(time.Minute), AtLeast(time.Minute))
		begin := time.Now()
		<-lock.Context().Done()
		took := time.Since(begin)
		_ = lock.Release(t.Context())
		synctest.Wait()
		if took >= time.Minute || s.lingered != time.Minute-took || s.count("abandon x") != 0 {
			t.Errorf("lost after %v, lingers for %v, calls %v", took, s.lingered, s.calls)
		}
		closeAll(t, l)
	})
}

// Renewals that hang do not pile up.
func TestHangingRenewalsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int64
		s := &script{
			traits: driver.Traits{Session: true},
			renew: func(context.Context, []*driver.Claim, func(*driver.Claim, driver.Instant, error)) {
				most.Store(max(most.Load(), now.Add(1)))
				defer now.Add(-1)
				time.Sleep(time.Minute)
			},
		}
		l := open(t, s, WithTTL(3*time.Second))
		acquire(t, l, "x")
		time.Sleep(5 * time.Minute)
		if n := most.Load(); n != maxRenewals {
			t.Errorf("up to %d hung at once, want %d", n, maxRenewals)
		}
		_ = l.Close(context.Background())
		time.Sleep(time.Minute) // they come back
	})
}

// As long as a renewal brings answers there is no other: they would make a slow server slower. The next follows at once.
func TestSlowRenewalsDoNotPileUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := TimeClock{}
		var now, most, ended atomic.Int64
		s := &script{
			traits: driver.Traits{Check: time.Second},
			renew: func(_ context.Context, claims []*driver.Claim, report func(*driver.Claim, driver.Instant, error)) {
				most.Store(max(most.Load(), now.Add(1)))
				defer now.Add(-1)
				for _, c := range claims {
					time.Sleep(250 * time.Millisecond)
					report(c, clock.Now().Add(c.TTL), nil)
				}
				ended.Add(1)
			},
		}
		l := open(t, s, WithTTL(time.Minute))
		locks := acquireMany(t, l, 20)
		time.Sleep(time.Minute)
		if most.Load() != 1 || ended.Load() < 10 {
			t.Errorf("up to %d renewals at once, want 1; %d in a minute, each of five seconds", most.Load(), ended.Load())
		}
		for _, lock := range locks {
			if err := lock.Release(context.Background()); err != nil {
				t.Error(err)
			}
		}
		closeAll(t, l)
	})
}

// Calls that hang, because some of the servers do, keep nobody from learning within a second of a loss at another.
func TestHangingRenewalsDelayNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := TimeClock{}
		var hanging, evicted atomic.Bool
		s := &script{
			traits: driver.Traits{Check: 750 * time.Millisecond},
			renew: func(ctx context.Context, claims []*driver.Claim, report func(*driver.Claim, driver.Instant, error)) {
				hangs := false
				for _, c := range claims {
					switch {
					case c.Name == "hangs" && hanging.Load():
						hangs = true
					case c.Name == "evicted" && evicted.Load():
						report(c, 0, driver.ErrGone)
					default:
						report(c, clock.Now().Add(c.TTL), nil)
					}
				}
				if hangs {
					<-ctx.Done()
				}
			},
		}
		l := open(t, s, WithTTL(time.Minute))
		acquire(t, l, "hangs")
		lock := acquire(t, l, "evicted")
		time.Sleep(2 * time.Second)
		hanging.Store(true)
		for range 100 {
			time.Sleep(900 * time.Millisecond)
			evicted.Store(true)
			begin := time.Now()
			<-lock.Context().Done()
			if took := time.Since(begin); took > time.Second {
				t.Fatalf("told after %v", took)
			}
			evicted.Store(false)
			lock = acquire(t, l, "evicted")
		}
		closeAll(t, l)
	})
}

// A lease that only the session bounds on the server ends when its time is over,
// and before that with the session.
func TestLeaseBySession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := TimeClock{}
		alive := true
		s := &script{
			traits: driver.Traits{Session: true, LeaseBySession: true},
			acquire: func(context.Context, *driver.Claim) (driver.Grant, error) {
				return driver.Grant{Token: 1, Until: clock.Now().Add(3 * time.Second)}, nil
			},
			renew: func(_ context.Context, claims []*driver.Claim, report func(*driver.Claim, driver.Instant, error)) {
				for _, c := range claims {
					if alive {
						report(c, clock.Now().Add(3*time.Second), nil)
					}
				}
			},
		}
		l := open(t, s, WithTTL(3*time.Second))
		begin := time.Now()
		lock := acquire(t, l, "x", WithLease(time.Hour))
		<-lock.Context().Done()
		if took := time.Since(begin); took > time.Hour || took < time.Hour-time.Second {
			t.Errorf("ended after %v, want an hour", took)
		}
		synctest.Wait()
		if s.count("abandon x") != 1 {
			t.Errorf("calls: %v", s.calls)
		}

		begin, alive = time.Now(), false
		lock = acquire(t, l, "y", WithLease(time.Minute))
		<-lock.Context().Done()
		if took := time.Since(begin); took > 3*time.Second {
			t.Errorf("told %v after the last sign of life of a session of 3s", took)
		}
		closeAll(t, l)
	})
}

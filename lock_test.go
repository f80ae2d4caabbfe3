package locker

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// Promise 3: an acknowledgement that comes late does not stretch the deadline,
// and one that comes after the loss does not bring the lock back.
func TestLateAcknowledgement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := TimeClock{}
		s := &script{renew: func(_ context.Context, claims []*driver.Claim, report func(*driver.Claim, driver.Instant, error)) {
			sent := clock.Now()
			time.Sleep(5 * time.Second)
			report(claims[0], sent.Add(3*time.Second), nil)
		}}
		l := open(t, s, WithTTL(3*time.Second))
		lock := acquire(t, l, "x")
		begin := time.Now()
		<-lock.Context().Done()
		if took := time.Since(begin); took > 3*time.Second {
			t.Errorf("lost after %v", took)
		}
		time.Sleep(time.Minute)
		if lock.Context().Err() == nil {
			t.Error("came back")
		}
		closeAll(t, l)
	})
}

// Promise 3: the deadline is counted from what the driver says, which is a
// moment before the request was sent, not from the answer.
func TestDeadlineFromBeforeSending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := TimeClock{}
		s := &script{acquire: func(_ context.Context, c *driver.Claim) (driver.Grant, error) {
			sent := clock.Now()
			time.Sleep(2 * time.Second)
			return driver.Grant{Token: 1, Until: sent.Add(c.TTL)}, nil
		}}
		l := open(t, s, WithTTL(3*time.Second))
		lock := acquire(t, l, "x", WithLease(3*time.Second))
		if left := time.Until(lock.Deadline()); left > time.Second {
			t.Errorf("%v left, want less than a second", left)
		}
		begin := time.Now()
		<-lock.Context().Done()
		if took := time.Since(begin); took > time.Second {
			t.Errorf("lost %v after the answer, want less than a second", took)
		}
		closeAll(t, l)
	})
}

// stoppable is a clock that jumps, as after SIGSTOP or a suspended machine.
type stoppable struct {
	TimeClock
	slept atomic.Int64
}

func (c *stoppable) Now() driver.Instant {
	return c.TimeClock.Now().Add(time.Duration(c.slept.Load()))
}

// Promise 3: a process that was stopped learns of the loss at the first look,
// whichever way it looks, before any timer has run.
func TestFirstLookAfterSleep(t *testing.T) {
	looks := map[string]func(ctx context.Context) bool{
		"Err":   func(ctx context.Context) bool { return ctx.Err() != nil },
		"Cause": func(ctx context.Context) bool { return errors.Is(context.Cause(ctx), ErrLost) },
		"Done": func(ctx context.Context) bool {
			select {
			case <-ctx.Done():
				return true
			default:
				return false
			}
		},
	}
	for name, look := range looks {
		for _, within := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s,within=%v", name, within), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					clock := &stoppable{}
					s := &script{acquire: grant(clock)}
					l := open(t, s, WithClock(clock), WithTTL(3*time.Second))
					lock := acquire(t, l, "x")
					ctx := lock.Context()
					if within {
						var end func()
						ctx, end = lock.within(context.Background())
						defer end()
					}
					if look(ctx) {
						t.Fatal("lost before its time")
					}
					clock.slept.Store(int64(time.Hour))
					if !look(ctx) {
						t.Error("the first look did not see the loss")
					}
					if err := lock.Release(context.Background()); !errors.Is(err, ErrLost) {
						t.Errorf("Release: %v", err)
					}
					closeAll(t, l)
				})
			})
		}
	}
}

// A machine that slept is noticed within a second also by those who only wait
// for Done, although no timer ran during the sleep.
func TestDoneAfterSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := &stoppable{}
		s := &script{acquire: grant(clock), traits: driver.Traits{Session: true}}
		l := open(t, s, WithClock(clock), WithTTL(time.Hour))
		done := acquire(t, l, "x").Context().Done()
		synctest.Wait()
		begin := time.Now()
		clock.slept.Store(int64(2 * time.Hour))
		<-done
		if took := time.Since(begin); took > lookInterval {
			t.Errorf("told %v after waking up", took)
		}
		closeAll(t, l)
	})
}

// A holding that is gone by the server's word is cleaned up all the same: where the
// word is that of a majority, the rest may still have something of it.
func TestLostHoldingIsAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{renew: func(_ context.Context, claims []*driver.Claim, report func(*driver.Claim, driver.Instant, error)) {
			for _, c := range claims {
				report(c, 0, driver.ErrGone)
			}
		}}
		l := open(t, s)
		lock := acquire(t, l, "x")
		<-lock.Context().Done()
		if cause := context.Cause(lock.Context()); !errors.Is(cause, ErrLost) {
			t.Error(cause)
		}
		synctest.Wait()
		if s.count("abandon x") != 1 {
			t.Errorf("calls: %v", s.calls)
		}
		closeAll(t, l)
	})
}

// A driver that learns of a loss by itself is believed at once.
func TestDriverTellsLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var claim *driver.Claim
		s := &script{}
		ok := grant(TimeClock{})
		s.acquire = func(ctx context.Context, c *driver.Claim) (driver.Grant, error) {
			claim = c
			return ok(ctx, c)
		}
		l := open(t, s)
		lock := acquire(t, l, "x")
		claim.Lost(errBroken)
		claim.Lost(errBroken)
		if cause := context.Cause(lock.Context()); !errors.Is(cause, ErrLost) || !errors.Is(cause, errBroken) {
			t.Error(cause)
		}
		synctest.Wait()
		if s.count("abandon x") != 1 {
			t.Errorf("calls: %v", s.calls)
		}

		// Also when it learns of it before it has answered.
		n := 0
		s.acquire = func(ctx context.Context, c *driver.Claim) (driver.Grant, error) {
			if n++; n == 1 {
				c.Lost(errBroken)
			}
			return ok(ctx, c)
		}
		if lock := acquire(t, l, "y"); lock.Context().Err() != nil || n != 2 {
			t.Errorf("%v after %d attempts", lock.Context().Err(), n)
		}
		closeAll(t, l)
	})
}

func TestDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{}
		l := open(t, s, WithTTL(3*time.Second))
		ctx, cancel := context.WithCancel(context.Background())
		err := Do(ctx, l, "x", func(ctx context.Context, lock *Lock) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		})
		if !errors.Is(err, context.Canceled) || s.count("release x") != 1 {
			t.Errorf("%v, calls %v", err, s.calls)
		}
		err = Do(context.Background(), l, "y", func(ctx context.Context, lock *Lock) error {
			<-ctx.Done() // nothing renews it
			if cause := context.Cause(ctx); !errors.Is(cause, ErrLost) {
				t.Error(cause)
			}
			return nil
		})
		if !errors.Is(err, ErrLost) {
			t.Errorf("lost while fn ran: %v", err)
		}
		func() {
			defer func() { _ = recover() }()
			_ = Do(context.Background(), l, "z", func(context.Context, *Lock) error { panic("no") })
		}()
		if s.count("release z") != 1 {
			t.Error("not released when fn panicked")
		}
		closeAll(t, l)
	})
}

// An acknowledgement that comes after the deadline extends nothing, also when no
// timer has run yet because the process was stopped.
func TestAcknowledgementAfterStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := &stoppable{}
		s := &script{acquire: grant(clock), renew: func(_ context.Context, claims []*driver.Claim, report func(*driver.Claim, driver.Instant, error)) {
			sent := clock.Now()
			clock.slept.Store(int64(4 * time.Second))
			report(claims[0], sent.Add(time.Hour), nil)
		}}
		l := open(t, s, WithClock(clock), WithTTL(3*time.Second))
		lock := acquire(t, l, "x")
		time.Sleep(2 * time.Second)
		if cause := context.Cause(lock.Context()); !errors.Is(cause, ErrLost) {
			t.Errorf("cause is %v", cause)
		}
		closeAll(t, l)
	})
}

// Printing a lock does not race with its life.
func TestPrintWhileLost(t *testing.T) {
	var claim *driver.Claim
	s := &script{}
	ok := grant(SystemClock())
	s.acquire = func(ctx context.Context, c *driver.Claim) (driver.Grant, error) {
		claim = c
		return ok(ctx, c)
	}
	l := open(t, s, WithClock(SystemClock()))
	lock := acquire(t, l, "x")
	go claim.Lost(errBroken)
	if text := fmt.Sprint(lock); text != `lock "x" with token 1` {
		t.Error(text)
	}
	closeAll(t, l)
}

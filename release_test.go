package locker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// Promise 7: a deferred Release works although the context of the work is over.
func TestReleaseWithCancelledContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{}
		l := open(t, s)
		lock := acquire(t, l, "x")
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := lock.Release(ctx); err != nil {
			t.Error(err)
		}
		if err := lock.Release(ctx); err != nil {
			t.Error("second:", err)
		}
		if s.count("release x") != 1 {
			t.Errorf("calls: %v", s.calls)
		}
		if cause := context.Cause(lock.Context()); !errors.Is(cause, ErrReleased) {
			t.Error(cause)
		}
		closeAll(t, l)
	})
}

// Promise 7: a release that gets no answer goes on after Release has returned,
// and an answer that only a repetition explains is not taken for a loss.
func TestReleaseIsRepeated(t *testing.T) {
	for _, prompt := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n := 0
			s := &script{traits: driver.Traits{Prompt: prompt}, release: func(context.Context, *driver.Claim) error {
				if n++; n == 1 {
					return errBroken // done, but the reply was lost
				}
				return driver.ErrGone
			}}
			l := open(t, s)
			if err := acquire(t, l, "x").Release(context.Background()); err != nil {
				t.Error(err)
			}
			if err := acquire(t, l, "x").Release(context.Background()); !errors.Is(err, ErrLost) {
				t.Errorf("gone at the first answer: %v", err)
			}
			s.release = func(context.Context, *driver.Claim) error { return errBroken }
			begin := time.Now()
			err := acquire(t, l, "x").Release(context.Background())
			if took := time.Since(begin); !errors.Is(err, errBroken) || took > releaseBound+5*time.Second {
				t.Errorf("%v after %v", err, took)
			}
			synctest.Wait()
			if s.count("abandon x") != 1 {
				t.Errorf("calls: %v", s.calls)
			}
			closeAll(t, l)
		})
	}
}

// Promise 7: Release has a bound of its own, also where the driver is asked on the
// caller's goroutine and the server says nothing.
func TestReleaseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{traits: driver.Traits{Prompt: true}, release: func(ctx context.Context, _ *driver.Claim) error {
			<-ctx.Done()
			return errBroken
		}}
		l := open(t, s)
		begin := time.Now()
		err := acquire(t, l, "x").Release(context.Background())
		if took := time.Since(begin); took > releaseBound+grace || !errors.Is(err, errBroken) {
			t.Errorf("%v after %v", err, took)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		begin = time.Now()
		err = acquire(t, l, "x").Release(ctx)
		if took := time.Since(begin); took > time.Second+grace || !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errBroken) {
			t.Errorf("%v after %v", err, took)
		}
		time.Sleep(time.Minute)
		closeAll(t, l)
	})
}

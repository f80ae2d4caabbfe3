package locker

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// Promise 6: calls return by their context, whatever the driver does.
func TestPromptWhenDriverHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := func() { time.Sleep(10 * time.Second) }
		var hanging atomic.Bool
		hanging.Store(true)
		clock := TimeClock{}
		ok := grant(clock)
		s := &script{
			acquire: func(ctx context.Context, c *driver.Claim) (driver.Grant, error) {
				if hanging.Load() {
					hang()
				}
				return ok(ctx, c)
			},
			release: func(context.Context, *driver.Claim) error {
				if hanging.Load() {
					hang()
				}
				return nil
			},
		}
		l := open(t, s)
		calls := map[string]func(ctx context.Context) error{
			"Acquire": func(ctx context.Context) error { _, err := l.Acquire(ctx, "x"); return err },
			"Queued":  func(ctx context.Context) error { _, err := l.Acquire(ctx, "x"); return err },
			"Try":     func(ctx context.Context) error { _, err := l.TryAcquire(ctx, "x"); return err },
		}
		// An error of this package, as errgroup makes one the cause, is not taken for that of the call.
		cause := error(&Error{Op: "try", Backend: "another", Name: "another", Err: ErrNotAcquired})
		for name, call := range calls {
			ctx, cancel := context.WithTimeoutCause(context.Background(), time.Second, cause)
			begin := time.Now()
			err := call(ctx)
			if took := time.Since(begin); took > time.Second+100*time.Millisecond {
				t.Errorf("%s returned after %v", name, took)
			}
			if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, cause) {
				t.Errorf("%s: %v", name, err)
			}
			var known *Error
			if !errors.As(err, &known) || known.Name != "x" || known.Backend != "script" {
				t.Errorf("%s: %#v", name, err)
			}
			cancel()
		}
		time.Sleep(time.Minute)
		if n := s.count("abandon x"); n != 3 {
			t.Errorf("%d claims undone, want 3", n)
		}

		hanging.Store(false)
		lock := acquire(t, l, "x")
		hanging.Store(true)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		begin := time.Now()
		err := lock.Release(ctx)
		if took := time.Since(begin); took > time.Second+100*time.Millisecond || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Release: %v after %v", err, took)
		}
		hanging.Store(false)
		closeAll(t, l)
	})
}

// Promise 5: whatever Acquire returned an error for is undone, until it worked.
func TestFailedAttemptIsUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails := 5
		s := &script{
			acquire: func(context.Context, *driver.Claim) (driver.Grant, error) { return driver.Grant{}, errBroken },
			abandon: func(context.Context, *driver.Claim) error {
				if fails--; fails >= 0 {
					return errBroken
				}
				return nil
			},
		}
		l := open(t, s)
		if _, err := l.Acquire(context.Background(), "x"); !errors.Is(err, errBroken) {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		if n := s.count("abandon x"); n != 6 {
			t.Errorf("undone %d times, want 6", n)
		}
		s.acquire = func(context.Context, *driver.Claim) (driver.Grant, error) { return driver.Grant{}, driver.ErrTaken }
		if _, err := l.TryAcquire(context.Background(), "y"); !errors.Is(err, ErrNotAcquired) {
			t.Error(err)
		}
		if s.count("abandon y") != 0 {
			t.Error("undone although the driver said that nothing was left")
		}
		closeAll(t, l)
	})
}

// A grant that comes when its time is already over is no lock.
func TestGrantThatIsTooOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := TimeClock{}
		ok := grant(clock)
		n := 0
		s := &script{acquire: func(ctx context.Context, c *driver.Claim) (driver.Grant, error) {
			g, err := ok(ctx, c)
			if n++; n < 3 {
				g.Until = clock.Now()
			}
			return g, err
		}}
		l := open(t, s)
		if lock := acquire(t, l, "x"); lock.Token() != 3 {
			t.Errorf("token %d", lock.Token())
		}
		synctest.Wait()
		if s.count("abandon x") != 2 {
			t.Errorf("calls: %v", s.calls)
		}
		n = 0
		if _, err := l.TryAcquire(context.Background(), "y"); !errors.Is(err, ErrLost) {
			t.Error(err)
		}
		closeAll(t, l)
	})
}

// A grant that comes after ctx has ended is no loss: nothing was held. It goes back.
func TestGrantAfterContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ok := grant(TimeClock{})
		s := &script{acquire: func(ctx context.Context, c *driver.Claim) (driver.Grant, error) {
			<-ctx.Done()
			return ok(ctx, c)
		}}
		l := open(t, s)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := l.Acquire(ctx, "x"); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrLost) {
			t.Error(err)
		}
		closeAll(t, l)
		if s.count("abandon x") != 1 {
			t.Errorf("calls: %v", s.calls)
		}
	})
}

// A server whose every grant comes too late is not asked without a pause, and the
// call still ends with its context.
func TestGrantsThatAreAllTooOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := TimeClock{}
		s := &script{acquire: func(context.Context, *driver.Claim) (driver.Grant, error) {
			return driver.Grant{Token: 1, Until: clock.Now()}, nil
		}}
		l := open(t, s)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		begin := time.Now()
		_, err := l.Acquire(ctx, "x")
		if took := time.Since(begin); took > time.Minute+grace || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v after %v", err, took)
		}
		if n := s.count("acquire x"); n < 3 || n > 100 {
			t.Errorf("asked %d times in a minute", n)
		}
		closeAll(t, l)
	})
}

// Promise 6: the locks of AcquireAll that go back do not keep the caller waiting when ctx has ended.
func TestAcquireAllIsPrompt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		ok := grant(TimeClock{})
		s := &script{
			acquire: func(ctx context.Context, c *driver.Claim) (driver.Grant, error) {
				if c.Name == "z" {
					<-hang
				}
				return ok(ctx, c)
			},
			release: func(context.Context, *driver.Claim) error { <-hang; return nil },
		}
		l := open(t, s)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		begin := time.Now()
		_, err := AcquireAll(ctx, l, []string{"x", "y", "z"})
		if took := time.Since(begin); took > time.Second+grace || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			t.Errorf("%v after %v", err, took)
		}
		close(hang)
		closeAll(t, l)
		for _, call := range []string{"release x", "release y", "abandon z"} {
			if s.count(call) != 1 {
				t.Errorf("%s: %d times", call, s.count(call))
			}
		}
	})
}

// Acquire returns ctx's error whenever it ends, also between two claims.
func TestContextEndsAtAnyMoment(t *testing.T) {
	for n := range 30 {
		synctest.Test(t, func(t *testing.T) {
			l := open(t, &script{acquire: func(context.Context, *driver.Claim) (driver.Grant, error) {
				return driver.Grant{Token: 1, Until: TimeClock{}.Now()}, nil // its time is over
			}})
			ctx := &countedContext{Context: context.Background()}
			ctx.left.Store(int32(n))
			if _, err := l.Acquire(ctx, "x"); !errors.Is(err, context.Canceled) {
				t.Errorf("ended after %d looks: %v", n, err)
			}
			closeAll(t, l)
		})
	}
}

// countedContext has ended when it was looked at so many times.
type countedContext struct {
	context.Context
	left atomic.Int32
}

func (c *countedContext) Err() error {
	if c.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// AcquireAll returns ctx's error also if a lock was lost just before.
func TestAcquireAllLostAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{}
		l := open(t, s)
		granted := s.acquire
		s.acquire = func(ctx context.Context, c *driver.Claim) (driver.Grant, error) {
			if c.Name == "a" {
				time.AfterFunc(time.Second, func() { c.Lost(driver.ErrGone) })
				return granted(ctx, c)
			}
			time.Sleep(2 * time.Second)
			return driver.Grant{}, ctx.Err()
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second+grace/2)
		defer cancel()
		_, err := AcquireAll(ctx, l, []string{"a", "b"})
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrLost) || errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		closeAll(t, l)
	})
}

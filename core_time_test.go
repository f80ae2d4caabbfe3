package locker

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

func open(t *testing.T, s *script, opts ...Option) Locker {
	t.Helper()
	cfg, err := NewConfig(append([]Option{WithClock(TimeClock{})}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	if s.acquire == nil {
		s.acquire = grant(cfg.Clock)
	}
	l, err := New(s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func closeAll(t *testing.T, l Locker) {
	t.Helper()
	if err := l.Close(context.Background()); err != nil {
		t.Error("Close:", err)
	}
}

func acquire(t *testing.T, l Locker, name string, opts ...AcquireOption) *Lock {
	t.Helper()
	lock, err := l.Acquire(context.Background(), name, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

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
		closeAll(t, l)
	})
}

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
		var locks []*Lock
		for i := range 100 {
			locks = append(locks, acquire(t, l, fmt.Sprint(i)))
		}
		time.Sleep(time.Minute)
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
		if took := time.Since(begin); took > glance {
			t.Errorf("told %v after waking up", took)
		}
		closeAll(t, l)
	})
}

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
		cause := errors.New("cause of mine")
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
	synctest.Test(t, func(t *testing.T) {
		n := 0
		s := &script{release: func(context.Context, *driver.Claim) error {
			if n++; n == 1 {
				return errBroken // done, but the reply was lost
			}
			return driver.ErrGone
		}}
		l := open(t, s)
		if err := acquire(t, l, "x").Release(context.Background()); err != nil {
			t.Error(err)
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

// Promise 9: the goroutines of one Locker queue here, in order, and one of them
// at a time waits at the server, also while another holds the lock.
func TestOneWaiterAtTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := TimeClock{}
		free := make(chan struct{}, 1)
		free <- struct{}{}
		var waiting, most, token atomic.Int64
		s := &script{
			acquire: func(ctx context.Context, c *driver.Claim) (driver.Grant, error) {
				most.Store(max(most.Load(), waiting.Add(1)))
				defer waiting.Add(-1)
				select {
				case <-free:
				case <-ctx.Done():
					return driver.Grant{}, ctx.Err()
				}
				return driver.Grant{Token: token.Add(1), Until: clock.Now().Add(c.TTL)}, nil
			},
			release: func(context.Context, *driver.Claim) error { free <- struct{}{}; return nil },
		}
		l := open(t, s)
		first := acquire(t, l, "x")
		var order []int
		done := make(chan struct{})
		for i := range 10 {
			go func() {
				lock, err := l.Acquire(context.Background(), "x")
				if err != nil {
					t.Error(err)
				}
				order = append(order, i)
				if err := lock.Release(context.Background()); err != nil {
					t.Error(err)
				}
				done <- struct{}{}
			}()
			synctest.Wait()
		}
		if waiting.Load() != 1 {
			t.Errorf("%d wait at the server while the lock is held, want 1", waiting.Load())
		}
		// A goroutine that gives up in the line does not disturb it.
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := l.Acquire(ctx, "x"); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if err := first.Release(context.Background()); err != nil {
			t.Error(err)
		}
		for range 10 {
			<-done
		}
		for i, n := range order {
			if i != n {
				t.Fatalf("order of grants: %v", order)
			}
		}
		if most.Load() != 1 {
			t.Errorf("up to %d waited at the server", most.Load())
		}
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

// Promise 15.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := TimeClock{}
		ok := grant(clock)
		s := &script{acquire: func(ctx context.Context, c *driver.Claim) (driver.Grant, error) {
			if c.Name == "taken" {
				<-ctx.Done()
				return driver.Grant{}, ctx.Err()
			}
			return ok(ctx, c)
		}}
		l := open(t, s)
		lock := acquire(t, l, "x")
		errs := make(chan error)
		for range 2 {
			go func() {
				_, err := l.Acquire(context.Background(), "taken")
				errs <- err
			}()
		}
		synctest.Wait()
		go closeAll(t, l)
		for range 2 {
			if err := <-errs; !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		}
		synctest.Wait()
		if cause := context.Cause(lock.Context()); !errors.Is(cause, ErrReleased) || !errors.Is(cause, ErrClosed) {
			t.Error(cause)
		}
		if s.count("release x") != 1 || s.count("close") != 1 {
			t.Errorf("calls: %v", s.calls)
		}
		if err := lock.Release(context.Background()); err != nil {
			t.Error("Release after Close:", err)
		}
		if _, err := l.Acquire(context.Background(), "x"); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		if _, err := l.TryAcquire(context.Background(), "x"); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		closeAll(t, l)
	})
}

// Close returns by its context also when the server does not answer.
func TestCloseWithoutServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{
			release: func(ctx context.Context, _ *driver.Claim) error { <-ctx.Done(); return ctx.Err() },
			abandon: func(context.Context, *driver.Claim) error { return errBroken },
		}
		l := open(t, s)
		for i := range 1000 {
			acquire(t, l, fmt.Sprint(i))
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		begin := time.Now()
		err := l.Close(ctx)
		if took := time.Since(begin); took > time.Second+100*time.Millisecond {
			t.Errorf("closed after %v", took)
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close: %v", err)
		}
	})
}

// Bad input is refused before anything is sent.
func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{}
		l := open(t, s)
		over, cancel := context.WithCancel(context.Background())
		cancel()
		for name, c := range map[string]struct {
			ctx  context.Context
			name string
			opt  AcquireOption
			want error
		}{
			"empty name":   {context.Background(), "", nil, ErrInvalidName},
			"long name":    {context.Background(), string(make([]byte, MaxName+1)), nil, ErrInvalidName},
			"short lease":  {context.Background(), "x", WithLease(0), ErrInvalidOption},
			"long lease":   {context.Background(), "x", WithLease(MaxTTL + 1), ErrInvalidOption},
			"nil option":   {context.Background(), "x", AcquireOption(nil), ErrInvalidOption},
			"shared":       {context.Background(), "x", Shared(), ErrUnsupported},
			"finished ctx": {over, "x", nil, context.Canceled},
		} {
			var opts []AcquireOption
			if c.opt != nil || name == "nil option" {
				opts = append(opts, c.opt)
			}
			if _, err := l.Acquire(c.ctx, c.name, opts...); !errors.Is(err, c.want) {
				t.Errorf("%s: Acquire: %v", name, err)
			}
			if _, err := l.TryAcquire(c.ctx, c.name, opts...); !errors.Is(err, c.want) {
				t.Errorf("%s: TryAcquire: %v", name, err)
			}
		}
		if len(s.calls) != 0 {
			t.Errorf("sent: %v", s.calls)
		}
		closeAll(t, l)
	})
	for name, opt := range map[string]Option{
		"zero TTL": WithTTL(0), "negative TTL": WithTTL(-1), "long TTL": WithTTL(MaxTTL + 1),
		"long owner": WithOwner(string(make([]byte, MaxOwner+1))), "nil": nil, "nil logger": WithLogger(nil), "nil clock": WithClock(nil),
	} {
		if _, err := NewConfig(opt); !errors.Is(err, ErrInvalidOption) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOptionOfAnotherBackend(t *testing.T) {
	type mine struct{ n int }
	cfg, err := NewConfig(BackendOption(func(m *mine) { m.n++ }), BackendOption(func(m *mine) { m.n++ }))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(&script{}, cfg); !errors.Is(err, ErrInvalidOption) {
		t.Errorf("option nobody asked for: %v", err)
	}
	var m mine
	Settings(cfg, &m)
	if m.n != 2 {
		t.Errorf("applied %d options, want 2", m.n)
	}
	if _, err := New(&script{}, cfg); err != nil {
		t.Error(err)
	}
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

// Promise 15: a lock granted while Close begins is released too, whoever of the
// two comes first.
func TestCloseDuringAcquire(t *testing.T) {
	for range 500 {
		var granted, freed atomic.Int64
		free := func(context.Context, *driver.Claim) error { freed.Add(1); return nil }
		s := &script{silent: true, release: free, abandon: free}
		ok := grant(SystemClock())
		s.acquire = func(ctx context.Context, c *driver.Claim) (driver.Grant, error) {
			granted.Add(1)
			return ok(ctx, c)
		}
		l := open(t, s, WithClock(SystemClock()))
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				if _, err := l.TryAcquire(context.Background(), "x"); err != nil {
					return
				}
			}
		}()
		for granted.Load() == 0 {
			runtime.Gosched()
		}
		closeAll(t, l)
		<-done
		if granted.Load() != freed.Load() {
			t.Fatalf("%d granted, %d freed", granted.Load(), freed.Load())
		}
	}
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
		if n := most.Load(); n != renewals {
			t.Errorf("up to %d hung at once, want %d", n, renewals)
		}
		closeAll(t, l)
	})
}

// Promise 9: a turn that comes at the very moment at which the one in line gives
// up goes to the next.
func TestTurnIsPassedOn(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			ok := grant(TimeClock{})
			s := &script{acquire: func(ctx context.Context, c *driver.Claim) (driver.Grant, error) {
				time.Sleep(time.Second)
				return ok(ctx, c)
			}}
			l := open(t, s)
			var wg sync.WaitGroup
			wg.Go(func() { acquire(t, l, "x") })
			synctest.Wait()
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				_, _ = l.Acquire(ctx, "x")
			})
			synctest.Wait()
			wg.Go(func() { acquire(t, l, "x") })
			wg.Wait()
			closeAll(t, l)
		})
	}
}

package locker

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
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

// Nothing is renewed any more once its release has begun, also if that fails, and as long as it is tried: the server ends it by
// the TTL.
func TestReleaseEndsRenewals(t *testing.T) {
	for _, prompt := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			clock := TimeClock{}
			var ofX, ofOther atomic.Int64
			var up atomic.Bool
			answer := func(context.Context, *driver.Claim) error {
				if up.Load() {
					return nil
				}
				return errBroken
			}
			s := &script{traits: driver.Traits{Prompt: prompt}, release: answer, abandon: answer}
			s.renew = func(_ context.Context, claims []*driver.Claim, report func(*driver.Claim, driver.Instant, error)) {
				for _, c := range claims {
					if c.Name == "x" {
						ofX.Add(1)
					} else {
						ofOther.Add(1)
					}
					report(c, clock.Now().Add(c.TTL), nil)
				}
			}
			l := open(t, s, WithTTL(3*time.Second))
			lock := acquire(t, l, "x")
			acquire(t, l, "other") // is renewed all the while
			time.Sleep(10*time.Second + time.Millisecond)
			synctest.Wait()
			x, other := ofX.Load(), ofOther.Load()
			if err := lock.Release(context.Background()); !errors.Is(err, errBroken) {
				t.Errorf("prompt %v: %v", prompt, err)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if more := ofX.Load() - x; x == 0 || more > 0 {
				t.Errorf("prompt %v: %d renewals before the release, %d after", prompt, x, more)
			}
			if ofOther.Load() == other {
				t.Errorf("prompt %v: the other is not renewed: the test shows nothing", prompt)
			}
			up.Store(true)
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

// It is bounded also where the driver does not obey its context. Do waits for one release only.
func TestReleaseIsBoundedByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		s := &script{release: func(context.Context, *driver.Claim) error { <-answer; return nil }}
		l := open(t, s)
		for how, release := range map[string]func() error{
			"Release": func() error { return acquire(t, l, "x").Release(context.Background()) },
			"Do": func() error {
				return Do(context.Background(), l, "y", func(context.Context, *Lock) error { return nil })
			},
		} {
			begin := time.Now()
			err := release()
			if took := time.Since(begin); took > releaseBound+grace || !errors.Is(err, errUnconfirmed) {
				t.Errorf("%s: %v after %v", how, err, took)
			}
		}
		ctx, cancel := context.WithCancel(context.Background())
		var begin time.Time
		err := Do(ctx, l, "z", func(context.Context, *Lock) error { cancel(); begin = time.Now(); return nil })
		if took := time.Since(begin); took > grace || !errors.Is(err, context.Canceled) {
			t.Errorf("after the context has ended: %v after %v", err, took)
		}
		close(answer)
		closeAll(t, l)
	})
}

// Release returns ctx's error also if the server is given up at the same moment, or was before.
func TestReleaseSaysThatContextEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, &script{release: func(context.Context, *driver.Claim) error { return errBroken }})
		ctx, cancel := context.WithTimeout(context.Background(), releaseBound-grace/2)
		defer cancel()
		lock := acquire(t, l, "x")
		for _, when := range []string{"at the same moment", "before"} {
			err := lock.Release(ctx)
			if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errUnconfirmed) || !errors.Is(err, errBroken) {
				t.Errorf("given up %s: %v", when, err)
			}
		}
		if err := lock.Release(context.Background()); errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errBroken) {
			t.Errorf("with a context that goes on: %v", err)
		}
		closeAll(t, l)
	})
}

// Release says what it was held up by, also when the error came before ctx ended.
func TestReleaseSaysWhy(t *testing.T) {
	for _, prompt := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			denied := errors.New("NOPERM")
			s := &script{traits: driver.Traits{Prompt: prompt}, release: func(context.Context, *driver.Claim) error { return denied }}
			l := open(t, s)
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			err := acquire(t, l, "x").Release(ctx)
			if !errors.Is(err, denied) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("prompt %v: %v", prompt, err)
			}
			closeAll(t, l)
		})
	}
}

// What no repetition mends is told at once; the cleanup goes on.
func TestReleaseRefused(t *testing.T) {
	for _, prompt := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := &script{traits: driver.Traits{Prompt: prompt}, release: func(context.Context, *driver.Claim) error {
				return fmt.Errorf("%w: NOPERM", driver.ErrRefused)
			}}
			l := open(t, s)
			lock := acquire(t, l, "x")
			begin := time.Now()
			err := lock.Release(context.Background())
			if took := time.Since(begin); took > 0 || !errors.Is(err, driver.ErrRefused) {
				t.Errorf("prompt %v: %v after %v", prompt, err, took)
			}
			synctest.Wait()
			if s.count("release x") != 1 || s.count("abandon x") != 1 {
				t.Errorf("prompt %v: %v", prompt, s.calls)
			}
			closeAll(t, l)
		})
	}
}

// A driver that panics (a hook of the user's client, say) leaves nothing hanging: the caller
// sees the panic, a second Release returns, and Close does not wait for the first.
func TestReleasePanics(t *testing.T) {
	for _, prompt := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := &script{traits: driver.Traits{Prompt: prompt}, release: func(context.Context, *driver.Claim) error { panic("hook") }}
			l := open(t, s, WithTTL(time.Second))
			lock := acquire(t, l, "x")
			panicked := func() (p any) {
				defer func() { p = recover() }()
				_ = lock.Release(context.Background())
				return nil
			}()
			if prompt != (panicked != nil) {
				t.Errorf("prompt %v: panicked with %v", prompt, panicked)
			}
			begin := time.Now()
			if err := lock.Release(context.Background()); err == nil {
				t.Error("the second release says that it worked")
			}
			closeAll(t, l)
			if took := time.Since(begin); took > 0 {
				t.Errorf("second release and Close took %v", took)
			}
			if s.count("abandon x") != 1 {
				t.Errorf("calls: %v", s.calls)
			}
		})
	}
}

// The panic of a call that AcquireAll's locks or Names make aside does not end the process: they return an error.
func TestPanicsAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{traits: driver.Traits{Prompt: true, Inspect: true}, release: func(context.Context, *driver.Claim) error { panic("hook") }}
		s.acquire = grant(TimeClock{})
		cfg, _ := NewConfig[struct{}]("script", nil, WithClock(TimeClock{}))
		l, err := New(inspectPanics{s}, cfg)
		if err != nil {
			t.Fatal(err)
		}
		locks, err := AcquireAll(t.Context(), l, []string{"x", "y"})
		if err != nil {
			t.Fatal(err)
		}
		var known *Error
		if err := locks.Release(t.Context()); !errors.As(err, &known) || known.Op != "release" || len(err.(interface{ Unwrap() []error }).Unwrap()) != 2 {
			t.Errorf("Release: %v", err)
		}
		for name, err := range Names(t.Context(), l, "") {
			if !errors.As(err, &known) || known.Op != "names" {
				t.Errorf("Names: %q, %v", name, err)
			}
		}
		closeAll(t, l)
	})
}

// inspectPanics is a driver that panics when it is asked for what the server knows.
type inspectPanics struct{ *script }

func (inspectPanics) Look(context.Context, string) ([]driver.Position, error) { panic("hook") }
func (inspectPanics) Names(context.Context, string) iter.Seq2[string, error]  { panic("hook") }

// AtLeast: who releases early has the name stay taken for the rest, who releases late does not.
func TestAtLeast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s := openLingering(t)
		lock := acquire(t, l, "x", AtLeast(5*time.Second))
		time.Sleep(2 * time.Second)
		if err := lock.Release(context.Background()); err != nil || s.lingered != 3*time.Second || s.count("release x") != 0 {
			t.Errorf("lingers for %v: %v, %v", s.lingered, err, s.calls)
		}
		lock = acquire(t, l, "y", AtLeast(time.Second))
		time.Sleep(2 * time.Second)
		if err := lock.Release(context.Background()); err != nil || s.count("release y") != 1 {
			t.Errorf("%v, %v", err, s.calls)
		}
		acquire(t, l, "z", AtLeast(time.Minute))
		closeAll(t, l)
		if s.lingered != time.Minute {
			t.Errorf("closed while held: lingers for %v", s.lingered)
		}
	})
}

// A server that was away when the lock was released is asked to keep the name taken when it is back, and
// to free it only after that time.
func TestAtLeastAfterOutage(t *testing.T) {
	for _, outage := range []time.Duration{10 * time.Second, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			l, s := openLingering(t)
			s.away.Store(true)
			begin := time.Now()
			if err := acquire(t, l, "x", AtLeast(30*time.Second)).Release(context.Background()); !errors.Is(err, errUnconfirmed) {
				t.Errorf("release: %v", err)
			}
			time.Sleep(outage - time.Since(begin))
			s.away.Store(false)
			closeAll(t, l)
			kept, freed := s.lingered > 0, s.count("abandon x") > 0
			if kept != (outage < 30*time.Second) || freed == kept || s.lingered > max(30*time.Second-outage, 0) {
				t.Errorf("after an outage of %v: kept for %v, freed %t", outage, s.lingered, freed)
			}
		})
	}
}

// A leader that learns by its release that the lead was lost campaigns again, or has resigned.
func TestLeadLostAtRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{release: func(context.Context, *driver.Claim) error { return driver.ErrGone }}
		l := open(t, s)
		terms := 0
		err := Lead(context.Background(), l, "leader", func(context.Context, *Lock) error {
			if terms++; terms < 3 {
				return errBroken // its write was refused
			}
			return nil
		})
		if err != nil || terms != 3 {
			t.Errorf("%v after %d terms", err, terms)
		}
		closeAll(t, l)
	})
}

// A cleanup whose Linger finds that the claim holds its name no longer asks the driver for nothing more: something new
// may have the key by then.
func TestCleanupEndsWhereLingerFindsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s := openLingering(t)
		s.answer = driver.ErrGone
		s.away.Store(true)
		if err := acquire(t, l, "x", AtLeast(time.Minute)).Release(context.Background()); !errors.Is(err, errUnconfirmed) {
			t.Errorf("release: %v", err)
		}
		s.away.Store(false)
		closeAll(t, l)
		if s.lingered == 0 || s.count("abandon x") > 0 {
			t.Errorf("lingered for %v, %v", s.lingered, s.calls)
		}
	})
}

type lingering struct {
	*script
	lingered time.Duration
	away     atomic.Bool
	answer   error
}

// openLingering returns a Locker with AtLeast, and its driver.
func openLingering(t *testing.T) (Locker, *lingering) {
	t.Helper()
	s := &lingering{script: &script{traits: driver.Traits{Linger: true}}}
	s.acquire = grant(TimeClock{})
	cfg, _ := NewConfig[struct{}]("script", nil, WithClock(TimeClock{}))
	l, err := New(s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l, s
}

func (s *lingering) Linger(_ context.Context, _ *driver.Claim, d time.Duration) error {
	if s.away.Load() {
		return errBroken
	}
	s.lingered = d
	return s.answer
}

// The error of a release that was given up does not say that the caller's context has ended if it has not.
func TestReleaseWithContextThatGoesOn(t *testing.T) {
	for how, release := range map[string]func(context.Context, *driver.Claim) error{
		"obeys": func(ctx context.Context, _ *driver.Claim) error {
			<-ctx.Done()
			return fmt.Errorf("no answer: %w", ctx.Err())
		},
		"comes late": func(ctx context.Context, _ *driver.Claim) error {
			<-ctx.Done()
			time.Sleep(time.Second)
			return ctx.Err()
		},
	} {
		for _, prompt := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				l := open(t, &script{release: release, traits: driver.Traits{Prompt: prompt && how == "obeys"}})
				err := acquire(t, l, "x").Release(context.Background())
				if !errors.Is(err, errUnconfirmed) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
					t.Errorf("%s, prompt %t: %v", how, prompt, err)
				}
				closeAll(t, l)
			})
		}
	}
}

// A leader whose release is cut short, because another lock was lost, has not lost the lead.
func TestLeadUnderALockThatIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, &script{release: func(context.Context, *driver.Claim) error { time.Sleep(time.Second); return nil }})
		for how, f := range map[string]func(context.Context, Locker, string, func(context.Context, *Lock) error, ...AcquireOption) error{
			"Lead": Lead, "Do": Do,
		} {
			ctx, lose := context.WithCancelCause(context.Background())
			err := f(ctx, l, how, func(context.Context, *Lock) error { lose(ErrLost); return errBroken })
			if !errors.Is(err, errBroken) || errors.Is(err, ErrLost) {
				t.Errorf("%s: %v", how, err)
			}
		}
		closeAll(t, l)
	})
}

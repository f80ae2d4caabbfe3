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

// weighing is a script that can be asked to lighten a claim, which takes a second, and notes
// whether it is asked another thing of the claim meanwhile.
type weighing struct {
	*script
	answer   error
	lightens atomic.Int64
	busy     atomic.Bool
	twoAsked atomic.Bool
}

func openWeighing(t *testing.T, prompt bool) (Locker, *weighing) {
	w := &weighing{script: &script{traits: driver.Traits{Downgrade: true, Shared: true, Permits: true, Prompt: prompt}}}
	one := func(context.Context, *driver.Claim) error {
		if w.busy.Load() {
			w.twoAsked.Store(true)
		}
		return nil
	}
	w.acquire, w.release, w.abandon = grant(TimeClock{}), one, one
	cfg, err := NewConfig[struct{}]("script", nil, WithClock(TimeClock{}))
	if err != nil {
		t.Fatal(err)
	}
	l, err := New(w, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l, w
}

func (w *weighing) Lighten(_ context.Context, _ *driver.Claim, weight int32) error {
	w.busy.Store(true)
	time.Sleep(50 * time.Millisecond)
	w.busy.Store(false)
	if weight == 1 {
		w.lightens.Add(1)
	}
	return w.answer
}

func TestDowngrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, w := openWeighing(t, true)
		ctx := t.Context()
		lock := acquire(t, l, "x")
		token := lock.Token()
		inner, err := l.Acquire(lock.Context(), "x", Reenter())
		if err != nil {
			t.Fatal(err)
		}
		if err := inner.Downgrade(ctx); !errors.Is(err, ErrHeld) {
			t.Errorf("the lock that re-entered: %v", err)
		}
		w.answer = errBroken
		if err := lock.Downgrade(ctx); !errors.Is(err, errBroken) || lock.Context().Err() != nil {
			t.Errorf("%v, lock %v", err, lock.Context().Err())
		}
		if _, err := l.TryAcquire(lock.Context(), "x", Reenter()); !errors.Is(err, ErrHeld) {
			t.Errorf("exclusive in a lock that may be shared already: %v", err)
		}
		w.answer = nil
		if err := lock.Downgrade(ctx); err != nil || lock.Token() != token {
			t.Error(err)
		}
		_ = lock.Release(ctx)
		if err := lock.Downgrade(ctx); !errors.Is(err, ErrReleased) {
			t.Errorf("after the release: %v", err)
		}

		shared := acquire(t, l, "x", Shared())
		if err := shared.Downgrade(ctx); err != nil || w.lightens.Load() != 2 {
			t.Errorf("a shared lock: %v, %d requests", err, w.lightens.Load())
		}
		permits := acquire(t, l, "x", Permits(3, 3))
		if err := permits.Downgrade(ctx); !errors.Is(err, ErrUnsupported) {
			t.Errorf("permits: %v", err)
		}

		gone := acquire(t, l, "x")
		w.answer = driver.ErrGone
		if err := gone.Downgrade(ctx); !errors.Is(err, ErrLost) || !errors.Is(context.Cause(gone.Context()), ErrLost) {
			t.Errorf("not held any more: %v", err)
		}
		closeAll(t, l)
	})
}

// The driver is not asked to lighten a claim and to release or abandon it at the same time.
func TestOneThingOfAClaimAtOnce(t *testing.T) {
	for _, prompt := range []bool{true, false} {
		for what, end := range map[string]func(*Lock){
			"released": func(lock *Lock) { _ = lock.Release(context.Background()) },
			"lost":     func(lock *Lock) { lock.lease.lose(errBroken) },
		} {
			synctest.Test(t, func(t *testing.T) {
				l, w := openWeighing(t, prompt)
				lock := acquire(t, l, "x")
				for range 2 { // the second waits for the first, and then does not ask
					go func() { _ = lock.Downgrade(context.Background()) }()
				}
				synctest.Wait()
				end(lock)
				closeAll(t, l)
				synctest.Wait()
				if w.twoAsked.Load() || w.lightens.Load() != 1 {
					t.Errorf("prompt %v, %s: asked two things at once %v, lightened %d times", prompt, what, w.twoAsked.Load(), w.lightens.Load())
				}
			})
		}
	}
}

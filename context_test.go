package locker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// A context of Within ends with whichever is first, and says which.
func TestWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := new(script)
		lost := claims(seen, TimeClock{})
		l := open(t, seen)
		type key struct{}
		for what, x := range map[string]struct {
			end  func(*Lock, context.CancelCauseFunc)
			want error
		}{
			"the caller's ends": {func(_ *Lock, cancel context.CancelCauseFunc) { cancel(errBroken) }, errBroken},
			"released":          {func(lock *Lock, _ context.CancelCauseFunc) { _ = lock.Release(context.Background()) }, ErrReleased},
			"lost":              {func(*Lock, context.CancelCauseFunc) { (<-lost).Lost(errBroken) }, ErrLost},
		} {
			for len(lost) > 0 {
				<-lost
			}
			lock := acquire(t, l, "x")
			ctx, cancel := context.WithCancelCause(context.WithValue(context.Background(), key{}, 1))
			within := lock.Within(ctx)
			if within.Err() != nil || within.Value(key{}) != 1 {
				t.Fatal(within.Err())
			}
			x.end(lock, cancel)
			<-within.Done()
			if cause := context.Cause(within); !errors.Is(cause, x.want) {
				t.Errorf("%s: cause is %v", what, cause)
			}
			cancel(nil)
			_ = lock.Release(context.Background())
		}
		closeAll(t, l)
	})
}

// Contexts derived from the lock's own do not compare the clock after a stop; one that Within
// makes of them does.
func TestWithinComparesTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := &stoppable{}
		l := open(t, &script{acquire: grant(clock)}, WithClock(clock), WithTTL(time.Minute))
		lock := acquire(t, l, "x")
		derived, cancel := context.WithTimeout(lock.Context(), time.Hour)
		defer cancel()
		within := lock.Within(derived)
		clock.slept.Store(int64(2 * time.Minute)) // no timer has run
		if !errors.Is(within.Err(), context.Canceled) || !errors.Is(context.Cause(within), ErrLost) {
			t.Errorf("%v, %v", within.Err(), context.Cause(within))
		}
		closeAll(t, l)
	})
}

type derivedKey struct{}

// Who asks again for a name inside of its lock is told at once, however the context was made.
func TestErrHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{}
		l := open(t, s)
		lock := acquire(t, l, "x")
		other, err := l.Acquire(lock.Context(), "y")
		if err != nil {
			t.Fatal(err)
		}
		for what, ctx := range map[string]context.Context{
			"Context":                   lock.Context(),
			"Within":                    lock.Within(context.Background()),
			"derived":                   context.WithValue(lock.Context(), derivedKey{}, 2),
			"not cancelled":             context.WithoutCancel(lock.Context()),
			"a lock taken inside":       other.Context(),
			"Within of another's":       other.Within(lock.Context()),
			"Within of a lock of other": lock.Within(other.Context()),
		} {
			if _, err := l.Acquire(ctx, "x"); !errors.Is(err, ErrHeld) {
				t.Errorf("%s: %v", what, err)
			}
			if _, err := l.TryAcquire(ctx, "x", Reenter()); err != nil {
				t.Errorf("%s: Reenter: %v", what, err)
			}
		}
		if n := s.count("acquire x"); n != 1 {
			t.Errorf("%d requests", n)
		}
		another := open(t, &script{})
		if _, err := another.TryAcquire(lock.Context(), "x"); err != nil {
			t.Errorf("another Locker: %v", err)
		}
		inner, err := l.Acquire(other.Context(), "x", Reenter())
		if err != nil {
			t.Fatal(err)
		}
		saved := context.WithoutCancel(inner.Context())
		_ = inner.Release(context.Background())
		if _, err := l.TryAcquire(saved, "x"); !errors.Is(err, ErrHeld) {
			t.Errorf("the inner lock was released, the outer is held: %v", err)
		}
		loose := context.WithoutCancel(lock.Context())
		_ = lock.Release(context.Background())
		if _, err := l.TryAcquire(loose, "x"); err != nil {
			t.Errorf("after the release: %v", err)
		}
		closeAll(t, another)
		closeAll(t, l)
	})
}

// A lock that was re-entered is freed when the first who took it lets go, and not before.
func TestReenter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{traits: driver.Traits{Shared: true, Permits: true}}
		l := open(t, s)
		lock := acquire(t, l, "x")
		inner, err := l.Acquire(lock.Context(), "x", Reenter())
		if err != nil || inner.Token() != lock.Token() {
			t.Fatal(err)
		}
		innermost, err := l.Acquire(inner.Context(), "x", Reenter(), Shared())
		if err != nil {
			t.Fatal(err)
		}
		if err := inner.Release(t.Context()); err != nil || s.count("release x") != 0 || lock.Context().Err() != nil {
			t.Errorf("%v, calls %v", err, s.calls)
		}
		if innermost.Context().Err() != nil {
			t.Error("the innermost ended with one that is not the first")
		}
		if err := lock.Release(t.Context()); err != nil || s.count("release x") != 1 {
			t.Errorf("%v, calls %v", err, s.calls)
		}
		if cause := context.Cause(innermost.Context()); !errors.Is(cause, ErrReleased) {
			t.Errorf("the innermost goes on after the first let go: %v", cause)
		}
		if err := innermost.Release(t.Context()); err != nil {
			t.Error(err)
		}

		for what, x := range map[string]struct {
			outer, inner AcquireOption
			ok           bool
		}{
			"exclusive in shared":        {Shared(), Reenter(), false},
			"shared in shared":           {Shared(), Shared(), true},
			"shared in exclusive":        {Reenter(), Shared(), true},
			"2 of 3 in 1 of 3":           {Permits(1, 3), Permits(2, 3), false},
			"1 of 3 in 2 of 3":           {Permits(2, 3), Permits(1, 3), true},
			"1 of 2 in 2 of 3":           {Permits(2, 3), Permits(1, 2), false},
			"1 of 2 in 3 of 3":           {Permits(3, 3), Permits(1, 2), true},
			"shared in a permit":         {Permits(1, 3), Shared(), true},
			"a permit in shared":         {Shared(), Permits(1, 3), false},
			"a permit in exclusive":      {Reenter(), Permits(1, 3), true},
			"exclusive in all of 3 of 3": {Permits(3, 3), Reenter(), false},
		} {
			outer := acquire(t, l, "x", x.outer)
			inner, err := l.Acquire(outer.Context(), "x", x.inner, Reenter())
			if x.ok != (err == nil) || err != nil && !errors.Is(err, ErrHeld) {
				t.Errorf("%s: %v", what, err)
			}
			if inner != nil {
				_ = inner.Release(t.Context())
			}
			_ = outer.Release(t.Context())
		}
		closeAll(t, l)
	})
}

// A loss ends all who have re-entered.
func TestReenterLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{}
		seen := claims(s, TimeClock{})
		l := open(t, s)
		lock := acquire(t, l, "x")
		inner, err := l.Acquire(lock.Context(), "x", Reenter())
		if err != nil {
			t.Fatal(err)
		}
		(<-seen).Lost(errBroken)
		for _, each := range []*Lock{lock, inner} {
			if cause := context.Cause(each.Context()); !errors.Is(cause, ErrLost) {
				t.Error(cause)
			}
			if err := each.Release(t.Context()); !errors.Is(err, ErrLost) {
				t.Error(err)
			}
		}
		closeAll(t, l)
	})
}

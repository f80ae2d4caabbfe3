package locker_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/memory"
)

func openStore(t *testing.T, s *memory.Store, opts ...locker.Option) locker.Locker {
	t.Helper()
	l, err := s.Locker(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return l
}

// Several names are taken in the order of their bytes, each once.
func TestAcquireAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.NewStore()
		a, b := openStore(t, s), openStore(t, s)
		locks, err := locker.AcquireAll(t.Context(), a, []string{"b", "a", "B", "b"})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, lock := range locks {
			names = append(names, lock.Name())
		}
		if !slices.Equal(names, []string{"B", "a", "b"}) {
			t.Errorf("%q", names)
		}
		if _, err := locker.TryAcquireAll(t.Context(), b, []string{"c", "a"}); !errors.Is(err, locker.ErrNotAcquired) {
			t.Error(err)
		}
		if names := s.Names(); !slices.Equal(names, []string{"B", "a", "b"}) {
			t.Errorf("left by those who did not get all: %q", names)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := locker.AcquireAll(ctx, b, []string{"0", "a"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		synctest.Wait()
		if n := s.Len(); n != 3 {
			t.Errorf("%q", s.Names())
		}
		if err := locks.Release(t.Context()); err != nil || s.Len() != 0 {
			t.Errorf("%v, left %q", err, s.Names())
		}
		none, err := locker.AcquireAll(t.Context(), a, nil)
		if err != nil || len(none) != 0 || none.Release(t.Context()) != nil || none.Context().Err() != nil {
			t.Errorf("no names: %v", err)
		}
	})
}

// openBlocked makes a Locker of a store in which another holds "z".
func openBlocked(t *testing.T) (*memory.Store, locker.Locker, *locker.Lock) {
	t.Helper()
	s := memory.NewStore()
	l, other := openStore(t, s), openStore(t, s)
	blocker, err := other.Acquire(t.Context(), "z")
	if err != nil {
		t.Fatal(err)
	}
	return s, l, blocker
}

// If a lock is lost before the last is there all go back; afterwards the context of all ends.
func TestAcquireAllLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, a, blocker := openBlocked(t)
		failed := make(chan error)
		go func() {
			_, err := locker.AcquireAll(t.Context(), a, []string{"x", "z"})
			failed <- err
		}()
		synctest.Wait()
		s.Destroy("x")
		var of *locker.Error
		if err := <-failed; !errors.Is(err, locker.ErrLost) || errors.Is(err, context.Canceled) || !errors.As(err, &of) || of.Name != "x" {
			t.Errorf("lost while waiting: %v", err)
		}
		_ = blocker.Release(t.Context())
		synctest.Wait()
		if s.Len() != 0 {
			t.Errorf("left: %q", s.Names())
		}
		locks, err := locker.AcquireAll(t.Context(), a, []string{"x", "y"})
		if err != nil {
			t.Fatal(err)
		}
		whole := locks.Context()
		s.Destroy("y")
		<-whole.Done()
		if cause := context.Cause(whole); !errors.Is(cause, locker.ErrLost) || locks[0].Context().Err() != nil {
			t.Errorf("cause %v, the other lock: %v", cause, locks[0].Context().Err())
		}
		if err := locks.Release(t.Context()); !errors.Is(err, locker.ErrLost) {
			t.Error(err)
		}
	})
}

// AtLeast keeps no name taken of which the caller has not got the lock.
func TestAcquireAllAtLeast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, a, blocker := openBlocked(t)
		names := []string{"x", "y", "z"}
		if _, err := locker.TryAcquireAll(t.Context(), a, names, locker.AtLeast(time.Hour)); !errors.Is(err, locker.ErrNotAcquired) {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := locker.AcquireAll(ctx, a, names, locker.AtLeast(time.Hour)); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		synctest.Wait()
		if left := s.Names(); !slices.Equal(left, []string{"z"}) {
			t.Errorf("left %q, want only what another holds", left)
		}
		_ = blocker.Release(t.Context())
		locks, err := locker.AcquireAll(t.Context(), a, names, locker.AtLeast(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		if err := locks.Release(t.Context()); err != nil || s.Len() != len(names) {
			t.Errorf("released too early: %v, left %q", err, s.Names())
		}
	})
}

// Two who take the same names in another order do not wait for each other in a circle.
func TestAcquireAllDoesNotDeadlock(t *testing.T) {
	s := memory.NewStore()
	done := make(chan bool)
	for i := range 2 {
		l := openStore(t, s)
		names := []string{"x", "y", "z"}
		if i == 1 {
			slices.Reverse(names)
		}
		go func() {
			for range 1000 {
				locks, err := locker.AcquireAll(t.Context(), l, names)
				if err != nil {
					t.Error(err)
					break
				}
				_ = locks.Release(t.Context())
			}
			done <- true
		}()
	}
	<-done
	<-done
}

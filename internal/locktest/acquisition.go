package locktest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/lateness"
)

// Acquisition is one that is under way. Value and Err say what has come of it when Done is closed.
type Acquisition[T any] struct {
	Value T
	Err   error
	Done  chan struct{}

	Claim *driver.Claim // of BeginClaim
}

func begin[T any](acquire func() (T, error)) *Acquisition[T] {
	a := &Acquisition[T]{Done: make(chan struct{})}
	go func() {
		defer close(a.Done)
		a.Value, a.Err = acquire()
	}()
	return a
}

// Begin acquires the name in a goroutine; it returns at once.
func Begin(ctx context.Context, l locker.Locker, name string, opts ...locker.AcquireOption) *Acquisition[*locker.Lock] {
	return begin(func() (*locker.Lock, error) { return l.Acquire(ctx, name, opts...) })
}

// Granted returns the lock, or the grant; it ends the test if that does not come in d, and in what the machine is late by meanwhile.
func (a *Acquisition[T]) Granted(t testing.TB, d time.Duration) T {
	t.Helper()
	Receive(t, "the grant", a.Done, d)
	if a.Err != nil {
		t.Fatalf("acquire: %v", a.Err)
	}
	return a.Value
}

// Receive receives from c; it ends the test if nothing comes in d, and in what the machine is late by meanwhile.
func Receive[T any](t testing.TB, what string, c <-chan T, d time.Duration) T {
	t.Helper()
	late, giveBack := lateness.Share()
	defer giveBack()
	v, ok := lateness.Receive(context.Background(), late, c, d)
	if !ok {
		t.Fatalf("%s: not within %v", what, d)
	}
	return v
}

// Lost waits until the holder is told that the lock is lost; it ends the test if that takes longer than d, and than what the machine
// is late by meanwhile.
func Lost(t testing.TB, lock *locker.Lock, d time.Duration) {
	t.Helper()
	Receive(t, "telling the holder of the loss", lock.Context().Done(), d)
	if cause := context.Cause(lock.Context()); !errors.Is(cause, locker.ErrLost) {
		t.Errorf("the lock ended by %v", cause)
	}
}

// Renewal returns a function that reports whether the server has given all locks more time since. It ends the test, and says why, if
// one is lost.
func Renewal(t testing.TB, locks ...*locker.Lock) func() bool {
	t.Helper()
	before := make([]time.Time, len(locks))
	for i, lock := range locks {
		before[i] = lock.Deadline()
	}
	return func() bool {
		t.Helper()
		for i, lock := range locks {
			if lock.Context().Err() != nil {
				t.Fatalf("%s: %v", lock.Name(), context.Cause(lock.Context()))
			}
			if lock.Deadline().Sub(before[i]) < 100*time.Millisecond {
				return false
			}
		}
		return true
	}
}

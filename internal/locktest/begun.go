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

// Begun is an acquisition that is under way. Value and Err say what has come of it when Done is closed.
type Begun[T any] struct {
	Value T
	Err   error
	Done  chan struct{}

	Claim *driver.Claim // of BeginClaim
}

func begin[T any](acquire func() (T, error)) *Begun[T] {
	b := &Begun[T]{Done: make(chan struct{})}
	go func() {
		defer close(b.Done)
		b.Value, b.Err = acquire()
	}()
	return b
}

// Begin has the name acquired aside.
func Begin(ctx context.Context, l locker.Locker, name string, opts ...locker.AcquireOption) *Begun[*locker.Lock] {
	return begin(func() (*locker.Lock, error) { return l.Acquire(ctx, name, opts...) })
}

// Granted waits for d, and for what the machine is late by, until the name is acquired; it ends the test if it is not.
func (b *Begun[T]) Granted(t testing.TB, d time.Duration) T {
	t.Helper()
	Receive(t, "the grant", b.Done, d)
	if b.Err != nil {
		t.Fatalf("acquire: %v", b.Err)
	}
	return b.Value
}

// Receive receives from a channel, or ends the test if nothing comes in d and in what the machine is late by meanwhile.
func Receive[T any](t testing.TB, what string, c <-chan T, d time.Duration) (v T) {
	t.Helper()
	late, giveBack := lateness.Share()
	defer giveBack()
	for start := time.Now(); ; {
		left := d + late.Slack(start) - time.Since(start)
		if left <= 0 {
			t.Fatalf("%s: not within %v", what, d)
		}
		select {
		case v = <-c:
			return v
		case <-time.After(left):
		}
	}
}

// Lost waits until the holder is told that the lock is lost, and ends the test if it is not in d.
func Lost(t testing.TB, lock *locker.Lock, d time.Duration) {
	t.Helper()
	Receive(t, "telling the holder of the loss", lock.Context().Done(), d)
	if cause := context.Cause(lock.Context()); !errors.Is(cause, locker.ErrLost) {
		t.Errorf("the lock ended by %v", cause)
	}
}

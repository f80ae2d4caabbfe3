package locker

import (
	"context"
	"time"
)

// Observer is told what a Locker does, see WithObserver. Every function may be nil. They
// are called on the goroutine that does the thing, from many at once, and should
// return soon.
type Observer struct {
	// Acquiring is called when Acquire or TryAcquire begins to ask for name, with arguments
	// that are valid. What it returns takes the place of ctx for the rest of the call
	// (to carry a span, for instance), and done, unless it is nil, is called at the end with
	// the lock or the error.
	Acquiring func(ctx context.Context, name string) (next context.Context, done func(*Lock, error))

	// Releasing is the same for the first Release of a lock.
	Releasing func(ctx context.Context, lock *Lock) (next context.Context, done func(error))

	// Lost is called when a lock was lost, once for every Lock.
	Lost func(lock *Lock, reason error)

	// Renewed is called after each renewal, with how many claims it was for, of how many
	// it is not known whether they are still held, and how long it took.
	Renewed func(claims, unknown int, took time.Duration)

	// Cleanup is called after each attempt to remove what an acquisition or a lost lock
	// may have left on the server; err is nil if nothing is left.
	Cleanup func(name string, err error)
}

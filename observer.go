package locker

import (
	"context"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// Observer is told what a Locker does, see WithObserver. Every function may be nil. They
// are called on the goroutine that does the thing, from many at once, and should
// return soon.
type Observer struct {
	// Acquiring is called when Acquire or TryAcquire begins to ask for a name, with arguments
	// that are valid. What it returns takes the place of ctx for the rest of the call
	// and for the values of the lock's context (to carry a span, for instance), and done, unless
	// it is nil, is called at the end with the lock or the error.
	Acquiring func(ctx context.Context, a Attempt) (next context.Context, done func(*Lock, error))

	// Releasing is the same for a Release of a lock that has not ended.
	Releasing func(ctx context.Context, lock *Lock) (next context.Context, done func(error))

	// Lost is called when a lock was lost, once for every Lock.
	Lost func(lock *Lock, reason error)

	// Renewed is called after each renewal.
	Renewed func(r Renewal)

	// Cleanup is called after each attempt to remove what an acquisition or a lost lock
	// may have left on the server; err is nil if nothing is left.
	Cleanup func(name string, err error)
}

// Attempt is an acquisition, as Acquiring is told of it.
type Attempt struct {
	Backend, Name string
	// Mode is "exclusive", "shared" or "permits".
	Mode string
	// Wait: by Acquire, not TryAcquire.
	Wait bool
}

// Renewal is one request, or several, by which claims were renewed, as Renewed is told of it.
type Renewal struct {
	Backend string
	// Claims is how many claims it was for. It is 0 where a session is renewed while nothing is held.
	Claims int
	// Unknown is of how many of them it is not known whether they are still held.
	Unknown int
	// Took is how long it took.
	Took time.Duration
	// Margin is how much time was left, at the moment of its renewal, to the claim that had least:
	// so much later it would have been lost. It is 0 if none was renewed.
	Margin time.Duration
}

// mode returns the kind of lock that is asked for, as Attempt has it.
func (a acquisition) mode() string {
	switch {
	case a.limit != driver.All:
		return "permits"
	case a.weight == driver.All:
		return "exclusive"
	}
	return "shared"
}

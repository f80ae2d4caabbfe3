package locker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
)

var (
	// ErrNotAcquired is returned by TryAcquire when somebody else holds the name
	// or waits for it.
	ErrNotAcquired = errors.New("not acquired")

	// ErrHeld is returned when the context of an acquisition comes from a lock of the same
	// name and Locker that is still held, so that waiting could only fail. It wraps
	// ErrNotAcquired. See Reenter.
	ErrHeld = fmt.Errorf("%w: the context comes from a lock of the same name", ErrNotAcquired)

	// ErrLost is the cause of a Lock's context, and what Release returns, when
	// the lock may have been given to another before it was released.
	ErrLost = errors.New("lock lost")

	// ErrOverdue is wrapped in the reason of a loss when the lock was not renewed in time.
	ErrOverdue = errors.New("not renewed in time")

	// ErrReleased is the cause of a Lock's context after Release.
	ErrReleased = errors.New("lock released")

	// ErrNotFound is returned by Evict when the holder or waiter is not there any more.
	ErrNotFound = errors.New("no such holder or waiter")

	// ErrClosed is returned by every call on a Locker that has been closed, and
	// by the calls that were waiting when it was.
	ErrClosed = errors.New("locker closed")

	// ErrInvalidName is returned for a name that is empty or longer than MaxName
	// bytes.
	ErrInvalidName = errors.New("invalid name")

	// ErrInvalidOption is returned for an option that no backend could honour,
	// such as a TTL that is not positive, or that belongs to another backend.
	ErrInvalidOption = errors.New("invalid option")

	// ErrUnsupported is returned for what this backend does not offer.
	ErrUnsupported = errors.New("not supported by this backend")
)

// Error is the error of every constructor, of every method of a Locker and a Lock,
// and of the functions of this package; Do and Lead also return the error of their
// function, and Locks.Release joins several. It says what was being done and wraps the
// reason: one of the sentinel errors above, the error of the caller's context, or the
// error of the client library.
type Error struct {
	// Op is what was being done: "open", "acquire", "try", "release", "downgrade",
	// "inspect", "names", "evict", "close".
	Op string
	// Backend is the kind of server: "redis", "etcd".
	Backend string
	// Name is the name of the lock, empty where none is concerned.
	Name string
	// Err is the reason.
	Err error
}

// Error puts the fields into one line.
func (e *Error) Error() string {
	s := "locker: " + e.Backend + ": " + e.Op
	if e.Name != "" {
		s += " " + strconv.Quote(e.Name)
	}
	return s + ": " + e.Err.Error()
}

// Unwrap gives errors.Is and errors.As the reason.
func (e *Error) Unwrap() error { return e.Err }

// fail makes an *Error of err, unless it is one.
func (c *core) fail(op, name string, err error) error {
	if _, known := err.(*Error); known { // not a cause of the caller's within err
		return err
	}
	return &Error{Op: op, Backend: c.traits.Backend, Name: name, Err: err}
}

// ended returns the error for a call whose context ended; why is what the driver said
// last, if anything. errors.Is finds the context's error, its cause, and why.
func ended(ctx context.Context, why error) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); !errors.Is(cause, err) {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	if why != nil && !errors.Is(why, ctx.Err()) {
		err = fmt.Errorf("%w: %w", err, why)
	}
	return err
}

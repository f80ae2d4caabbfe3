package locker

import (
	"errors"
	"strconv"
)

var (
	// ErrNotAcquired is returned by TryAcquire when somebody else holds the name
	// or waits for it.
	ErrNotAcquired = errors.New("not acquired")

	// ErrLost is the cause of a Lock's context, and what Release returns, when
	// the lock may have been given to another before it was released.
	ErrLost = errors.New("lock lost")

	// ErrReleased is the cause of a Lock's context after Release.
	ErrReleased = errors.New("lock released")

	// ErrClosed is returned by every call on a Locker that has been closed, and
	// by the calls that were waiting when it was.
	ErrClosed = errors.New("locker closed")

	// ErrInvalidName is returned for a name that is empty or longer than MaxName
	// bytes.
	ErrInvalidName = errors.New("invalid name")

	// ErrInvalidOption is returned for an option that no backend could honour,
	// such as a TTL that is not positive, or that belongs to another backend.
	ErrInvalidOption = errors.New("invalid option")

	// ErrUnsupported is returned for an option that this backend does not offer.
	ErrUnsupported = errors.New("not supported by this backend")
)

// Error is the error of every method of a Locker and a Lock. It says what was
// being done and wraps the reason: one of the sentinel errors above, the error of
// the caller's context, or the error of the client library.
type Error struct {
	// Op is what was being done: "acquire", "try", "release", "close", "open".
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

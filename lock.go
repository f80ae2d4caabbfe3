package locker

import (
	"context"
	"fmt"
	"time"
)

// Lock is one holding of a name, from its acquisition to its release or loss. It
// is never used again after that. All methods may be called from any goroutine.
type Lock struct {
	lease  *lease
	caller context.Context // of Acquire: its values are those of the lock's context
	token  int64
	outer  *Lock // the Lock that this one re-entered, or nil

	// Guarded by lease.mu.
	cause error        // why it is no longer held, nil as long as it is
	ctx   *holdContext // nil as long as nobody asked for it
	frees bool         // its release is that of the lease
}

// String names the lock and its token.
func (l *Lock) String() string {
	return fmt.Sprintf("lock %q with token %d", l.Name(), l.token)
}

// Name is the name that was taken.
func (l *Lock) Name() string { return l.lease.claim.Name }

// Token is a number by which a store can refuse holders that are late, also when the
// lock failed to exclude them: of two holdings of a name that cannot overlap the later has the
// greater token. The store remembers, for each name, the greatest token that it has seen and the
// greatest of an exclusive operation, and refuses
//
//   - an exclusive operation whose token is lower than the greatest,
//   - a shared operation whose token is lower than the greatest exclusive one.
//
// An equal token is the holder's own, writing a second time. Between holdings that may
// overlap (shared, permits) tokens say nothing. The token is 0 only where the backend was
// told to do without.
func (l *Lock) Token() int64 { return l.token }

// Deadline is the moment at which the lock is lost unless it is renewed before,
// which happens by itself except with WithLease.
func (l *Lock) Deadline() time.Time {
	le := l.lease
	return time.Now().Add(le.until().Sub(le.core.clock.Now()))
}

// Wanted returns a channel that is closed when somebody else is known to wait for the
// name. It is a hint, which may come late or never: a long job may use it to make way
// earlier than it has to.
func (l *Lock) Wanted() <-chan struct{} {
	le := l.lease
	le.mu.Lock()
	defer le.mu.Unlock()
	if le.wanted == nil {
		le.wanted = make(chan struct{})
		if le.isWanted {
			close(le.wanted)
		}
	}
	return le.wanted
}

// become ends the lock; lease.mu is held. The state and the context change in one
// step: a process that is stopped between the two would see a lock that is lost as held.
func (l *Lock) become(cause error) {
	l.cause = cause
	if l.ctx != nil {
		l.ctx.cancel(cause)
	}
}

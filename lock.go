package locker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// Lock is one holding of a name, from its acquisition to its release or loss. It
// is never used again after that. All methods may be called from any goroutine.
type Lock struct {
	core   *core
	claim  driver.Claim
	caller context.Context // of Acquire: its values are those of the lock's context
	token  int64

	mu       sync.Mutex
	state    state
	cause    error          // why it is no longer held
	ctx      *holdContext   // nil as long as nobody asked for it
	deadline driver.Instant // of the holding, margin taken off
	leaseEnd driver.Instant // not to be extended beyond; 0 if there is no such moment
	failed   error          // of the last renewal, nil if it was confirmed
	ending   ending         // of the release
}

type state int

const (
	asking   state = iota // not granted yet
	held                  // granted, and as far as the clock tells still ours
	lost                  // maybe another's
	released              // Release or Close was called
	dropped               // never granted
)

func newLock(ctx context.Context, c *core, claim driver.Claim) *Lock {
	l := &Lock{core: c, claim: claim, caller: ctx}
	l.claim.Lost = l.lose
	return l
}

// String names the lock and its token.
func (l *Lock) String() string {
	return fmt.Sprintf("lock %q with token %d", l.Name(), l.token)
}

// Name is the name that was taken.
func (l *Lock) Name() string { return l.claim.Name }

// Token is a number greater than that of every earlier holder of the name. A
// store that refuses tokens lower than the greatest it has seen is safe from
// holders that are late, also when the lock failed to exclude them. It is 0 only
// where the backend was told to do without.
func (l *Lock) Token() int64 { return l.token }

// Context ends when the lock is released, with cause ErrReleased, and no later
// than the moment at which the server may give it to another, with cause ErrLost.
// Its Done and Err (and so context.Cause) compare the clock themselves, so that a process that
// was stopped and goes on learns of the loss at the first look. It carries the
// values of the context given to Acquire, but does not end with it.
func (l *Lock) Context() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx == nil {
		l.ctx = &holdContext{lock: l}
		l.ctx.Context, l.ctx.cancel = context.WithCancelCause(context.WithoutCancel(l.caller))
		if l.state != held {
			l.ctx.cancel(l.cause)
		}
	}
	return l.ctx
}

// Deadline is the moment at which the lock is lost unless it is renewed before,
// which happens by itself except with WithLease.
func (l *Lock) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Add(l.deadline.Sub(l.core.clock.Now()))
}

// hold makes the granted claim a held lock; false if it was lost before.
func (l *Lock) hold(g driver.Grant) bool {
	c := l.core
	now := c.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.claim.Lease && c.traits.LeaseBySession {
		l.leaseEnd = now.Add(l.claim.TTL)
	}
	deadline := l.limit(g.Until)
	if l.state != asking || deadline <= now || !c.keeper.add(l, deadline) {
		return false
	}
	l.state = held
	l.token = g.Token
	l.deadline = deadline
	return true
}

// drop ends a lock that was never granted, nor given to anybody.
func (l *Lock) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state == asking {
		l.state = dropped
	}
}

// become ends the lock. The state and the context change in one step: a process
// that is stopped between the two would see a lock that is lost as held.
func (l *Lock) become(s state, cause error) {
	l.state, l.cause = s, cause
	if l.ctx != nil {
		l.ctx.cancel(cause)
	}
}

// extend moves the deadline after a renewal, which never brings a lost lock back.
func (l *Lock) extend(until driver.Instant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	deadline := l.limit(until)
	if l.state == held && l.core.clock.Now() < l.deadline && deadline > l.deadline {
		l.deadline = deadline
	}
	l.failed = nil
}

// hinder notes why a renewal failed. If no other succeeds it is why the lock is lost.
func (l *Lock) hinder(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = err
}

// limit is the deadline of a holding that the server lets live until then.
func (l *Lock) limit(until driver.Instant) driver.Instant {
	if l.leaseEnd == 0 {
		return until.Add(-margin(l.claim.TTL))
	}
	// The margin is the session's: that of a long lease is longer than a session lasts.
	return min(until.Add(-margin(l.core.cfg.TTL)), l.leaseEnd)
}

// renewable says whether the lock is to be renewed while it is held.
func (l *Lock) renewable() bool {
	return !l.claim.Lease || l.core.traits.LeaseBySession
}

// due reports whether the lock is held, and until when unless it is renewed.
func (l *Lock) due() (is bool, deadline driver.Instant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state == held, l.deadline
}

var errOverdue = errors.New("not renewed in time")

// look compares the clock and reports whether the lock is still held.
func (l *Lock) look() bool {
	l.mu.Lock()
	is := l.state == held
	overdue := is && l.core.clock.Now() >= l.deadline
	why := errOverdue
	if overdue && l.failed != nil {
		// As text: that a renewal ran out of time must not look as if the caller had.
		why = fmt.Errorf("%w: %v", errOverdue, l.failed)
	}
	l.mu.Unlock()
	if overdue {
		l.lose(why)
		return false
	}
	return is
}

// lose ends the lock because another may have it, or soon will.
func (l *Lock) lose(reason error) {
	l.mu.Lock()
	before := l.state
	if before == asking || before == held {
		l.become(lost, fmt.Errorf("%w: %w", ErrLost, reason))
	}
	l.mu.Unlock()
	if before != held {
		return
	}
	c := l.core
	c.keeper.remove(l)
	c.cfg.Logger.Warn("locker: lock lost", "backend", c.traits.Backend, "name", l.Name(), "token", l.token, "reason", reason)
	c.undo(&l.claim)
}

// holdContext is the context of a Lock.
type holdContext struct {
	context.Context
	cancel context.CancelCauseFunc
	lock   *Lock
}

func (h *holdContext) Done() <-chan struct{} {
	h.lock.look()
	return h.Context.Done()
}

func (h *holdContext) Err() error {
	h.lock.look()
	return h.Context.Err()
}

// withinContext is a caller's context that also ends with a lock.
type withinContext struct {
	context.Context
	cancel context.CancelCauseFunc
	lock   context.Context
}

// within returns a context that ends when ctx does, when the lock does, or when
// end is called.
func (l *Lock) within(ctx context.Context) (within context.Context, end func()) {
	w := &withinContext{lock: l.Context()}
	w.Context, w.cancel = context.WithCancelCause(ctx)
	stop := context.AfterFunc(w.lock, w.look)
	return w, func() {
		stop()
		w.cancel(ErrReleased)
	}
}

func (w *withinContext) look() {
	if w.lock.Err() != nil {
		w.cancel(context.Cause(w.lock))
	}
}

func (w *withinContext) Done() <-chan struct{} {
	w.look()
	return w.Context.Done()
}

func (w *withinContext) Err() error {
	w.look()
	return w.Context.Err()
}

package locker

import "context"

// Context ends when the lock is released, with cause ErrReleased, and no later
// than the moment at which the server may give it to another, with cause ErrLost. It
// carries the values of the context given to Acquire, but does not end with it.
//
// Its Done and Err, and so context.Cause, compare the clock themselves, so that a process
// that was stopped and goes on learns of the loss at the first look. A context derived from it
// does not: its end comes from a timer, which after a stop may run a moment later.
// Derive first and ask Within for the last one.
func (l *Lock) Context() context.Context {
	le := l.lease
	le.mu.Lock()
	defer le.mu.Unlock()
	if l.ctx == nil {
		l.ctx = &holdContext{from: origin{l, l.caller}}
		l.ctx.Context, l.ctx.cancel = context.WithCancelCause(context.WithoutCancel(l.caller))
		if l.cause != nil {
			l.ctx.cancel(l.cause)
		}
	}
	return l.ctx
}

// Within returns a context that ends when ctx does or when the lock does, with the cause of
// whichever was first. Like that of Context its Done and Err compare the clock, also if ctx is
// derived from the lock's own context. It carries the values of ctx.
func (l *Lock) Within(ctx context.Context) context.Context {
	within, _ := l.within(ctx)
	return within
}

// within is Within; the context also ends when end is called.
func (l *Lock) within(ctx context.Context) (within context.Context, end func()) {
	w := &withinContext{from: origin{l, ctx}, held: l.Context()}
	w.Context, w.cancel = context.WithCancelCause(ctx)
	stop := context.AfterFunc(w.held, w.look)
	context.AfterFunc(w.Context, func() { stop() })
	return w, func() { w.cancel(ErrReleased) }
}

// holdContext is the context of a Lock.
type holdContext struct {
	context.Context
	cancel context.CancelCauseFunc
	from   origin
}

func (h *holdContext) Done() <-chan struct{} {
	h.from.lock.lease.look()
	return h.Context.Done()
}

func (h *holdContext) Err() error {
	h.from.lock.lease.look()
	return h.Context.Err()
}

func (h *holdContext) Value(key any) any {
	if key == any(h.from.lock.lease.core) {
		return &h.from
	}
	return h.Context.Value(key)
}

// withinContext is a caller's context that also ends with a lock.
type withinContext struct {
	context.Context
	cancel context.CancelCauseFunc
	from   origin
	held   context.Context
}

// look ends the context if the lock has ended.
func (w *withinContext) look() {
	if w.held.Err() != nil {
		w.cancel(context.Cause(w.held))
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

func (w *withinContext) Value(key any) any {
	if key == any(w.from.lock.lease.core) {
		return &w.from
	}
	return w.Context.Value(key)
}

// origin is what a context has under its core as the key if it comes from a lock.
type origin struct {
	lock *Lock
	rest context.Context // may come from further locks
}

// originIn returns the innermost lock on name that is still held and from which ctx comes, or nil.
func (c *core) originIn(ctx context.Context, name string) *Lock {
	for {
		from, _ := ctx.Value(c).(*origin)
		switch {
		case from == nil:
			return nil
		case from.lock.Name() == name && from.lock.lease.look() && from.lock.held():
			return from.lock
		}
		ctx = from.rest
	}
}

// reenter looks whether ctx comes from a lock of the same name that is still held. It
// returns a Lock that joins that one, or ErrHeld, or neither.
func (c *core) reenter(ctx context.Context, name string, a acquisition) (*Lock, error) {
	outer := c.originIn(ctx, name)
	if outer == nil {
		return nil, nil
	}
	le := outer.lease
	le.mu.Lock()
	defer le.mu.Unlock()
	switch {
	case outer.cause != nil || le.state != held:
		return nil, nil
	case !a.reenter || a.weight > le.weight || a.limit < le.claim.Limit && le.weight != le.claim.Limit:
		return nil, ErrHeld
	}
	if outer.outer != nil {
		outer = outer.outer
	}
	l := &Lock{lease: le, caller: ctx, token: outer.token, outer: outer}
	le.locks = append(le.locks, l)
	return l, nil
}

// Package suite lets the rivals be held to the conformance suite: it makes a
// [conformance.Client] of a [contender.Client] and adds nothing to what the library
// does. Where a library tells of a loss by ending a context, or that it was closed, the
// adapter says it by this project's errors, and no later. Where it has nothing to say, the
// adapter says nothing either: Context ends only with Release.
package suite

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis/rueidislock"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/conformance"
)

// Opener returns what [conformance.Harness.OpenClient] wants, for a contender on some
// servers. With renew, holdings of a library that leaves renewing to its user are
// extended three times within their TTL, as its user would have to.
func Opener(c contender.Contender, addrs []string, renew bool) func(context.Context, ...locker.Option) (conformance.Client, error) {
	return func(ctx context.Context, opts ...locker.Option) (conformance.Client, error) {
		cfg, err := locker.NewConfig[struct{}]("rival", nil, opts...)
		if err != nil {
			return nil, err
		}
		opened, err := c.Open(ctx, contender.Config{Addrs: addrs, TTL: cfg.TTL})
		if err != nil {
			return nil, err
		}
		return client{opened, cfg.TTL, renew}, nil
	}
}

type client struct {
	contender.Client
	ttl   time.Duration
	renew bool
}

// Acquire leaves options out of account: no rival knows them.
func (c client) Acquire(ctx context.Context, name string, _ ...locker.AcquireOption) (conformance.Holding, error) {
	return c.take(ctx, name, c.Client.Acquire)
}

func (c client) TryAcquire(ctx context.Context, name string, _ ...locker.AcquireOption) (conformance.Holding, error) {
	if c.Try == nil {
		return nil, locker.ErrUnsupported
	}
	return c.take(ctx, name, c.Try)
}

func (c client) Close(context.Context) error { return c.Client.Close() }

// take takes name by a function of the library.
func (c client) take(ctx context.Context, name string, by contender.Taking) (conformance.Holding, error) {
	ends := time.Now().Add(c.ttl)
	h, err := by(ctx, name)
	if errors.Is(err, contender.ErrTaken) {
		err = locker.ErrNotAcquired
	}
	if errors.Is(err, rueidislock.ErrLockerClosed) {
		err = errors.Join(locker.ErrClosed, err)
	}
	if err != nil {
		return nil, err
	}
	l := &holding{Held: h, name: name, ends: ends}
	l.ctx, l.ended = context.WithCancelCause(context.Background())
	if w, ok := h.(contender.Watched); ok {
		library := w.Context()
		l.ctx = watchedContext{l.ctx, library, l.ended}
		l.unwatch = context.AfterFunc(library, func() { l.ended(locker.ErrLost) })
	}
	if e, ok := h.(contender.Extender); ok && c.renew {
		go l.extend(e, c.ttl)
	}
	return l, nil
}

type holding struct {
	contender.Held
	name  string
	ends  time.Time
	ctx   context.Context
	ended context.CancelCauseFunc
	// unwatch, if not nil, has the end of the library's context end ctx no more.
	unwatch func() bool
}

// watchedContext ends when the library's does, if ended has not been called before.
type watchedContext struct {
	context.Context
	library context.Context
	ended   context.CancelCauseFunc
}

func (c watchedContext) Err() error {
	if c.library.Err() != nil {
		c.ended(locker.ErrLost)
	}
	return c.Context.Err()
}

// extend extends the holding three times within its TTL until it has ended.
func (l *holding) extend(e contender.Extender, ttl time.Duration) {
	for contender.Pause(l.ctx, ttl/3) == nil {
		ctx, cancel := context.WithTimeout(l.ctx, ttl/3)
		_ = e.Extend(ctx, ttl)
		cancel()
	}
}

func (l *holding) Name() string             { return l.name }
func (l *holding) Context() context.Context { return l.ctx }

// Token is 0: no library claims that a number of its own is a token, and what is not claimed is not held against it.
func (l *holding) Token() int64 { return 0 }

// Deadline is the library's own, or else one TTL from before the lock was asked for.
func (l *holding) Deadline() time.Time {
	if d, ok := l.Held.(contender.Dated); ok {
		return d.Deadline()
	}
	return l.ends
}

func (l *holding) Release(ctx context.Context) error {
	if l.unwatch != nil { // the library ends its context with the release, which is no loss
		_ = l.ctx.Err() // it may be lost already
		l.ended(locker.ErrReleased)
		l.unwatch()
	}
	err := l.Held.Release(ctx)
	l.ended(locker.ErrReleased)
	return err
}

// Package suite lets the rivals be held to the conformance suite: it makes a
// [conformance.Client] of a [contender.Client] and adds nothing to what the library
// does. Where a library has nothing to say (no token, no word of a loss), the
// adapter says nothing either: Token is 0, Context ends only with Release.
package suite

import (
	"context"
	"errors"
	"time"

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
	if err != nil {
		return nil, err
	}
	parent := context.Background()
	if w, ok := h.(contender.Watched); ok {
		parent = w.Context()
	}
	l := &holding{Held: h, name: name, ends: ends}
	l.ctx, l.ended = context.WithCancelCause(parent)
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

// Deadline is the library's own, or else one TTL from before the lock was asked for.
func (l *holding) Deadline() time.Time {
	if d, ok := l.Held.(contender.Dated); ok {
		return d.Deadline()
	}
	return l.ends
}

func (l *holding) Release(ctx context.Context) error {
	err := l.Held.Release(ctx)
	l.ended(locker.ErrReleased)
	return err
}

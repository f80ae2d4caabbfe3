package checks

import (
	"context"
	"errors"

	"github.com/redis/rueidis/rueidislock"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/conformance"
)

// lossReportingClient is a client of a library that tells of a loss by ending a context. Its users see
// that as the suite expects it to be said: with locker.ErrLost for the cause, unless the
// lock was given back before. Nothing is told later than by the library. So it is with
// the error of a library that was closed.
type lossReportingClient struct{ conformance.Client }

func (c lossReportingClient) Acquire(
	ctx context.Context, name string, opts ...locker.AcquireOption,
) (conformance.Holding, error) {
	return reporting(c.Client.Acquire(ctx, name, opts...))
}

func (c lossReportingClient) TryAcquire(
	ctx context.Context, name string, opts ...locker.AcquireOption,
) (conformance.Holding, error) {
	return reporting(c.Client.TryAcquire(ctx, name, opts...))
}

func reporting(h conformance.Holding, err error) (conformance.Holding, error) {
	if errors.Is(err, rueidislock.ErrLockerClosed) {
		err = errors.Join(locker.ErrClosed, err)
	}
	if err != nil {
		return nil, err
	}
	own, end := context.WithCancelCause(context.Background())
	context.AfterFunc(h.Context(), func() { end(locker.ErrLost) })
	return &reportedHolding{Holding: h, ctx: &reportedContext{own, h.Context(), end}}, nil
}

type reportedHolding struct {
	conformance.Holding
	ctx *reportedContext
}

func (h *reportedHolding) Context() context.Context { return h.ctx }

// Token is none: no library claims that a number of its own is one, and what is not claimed
// is not held against it.
func (h *reportedHolding) Token() int64 { return 0 }

func (h *reportedHolding) Release(ctx context.Context) error {
	_ = h.ctx.Err() // it may be lost already
	h.ctx.end(locker.ErrReleased)
	return h.Holding.Release(ctx)
}

// reportedContext ends when the library's does.
type reportedContext struct {
	context.Context
	library context.Context
	end     context.CancelCauseFunc
}

func (c *reportedContext) Err() error {
	if c.library.Err() != nil {
		c.end(locker.ErrLost)
	}
	return c.Context.Err()
}

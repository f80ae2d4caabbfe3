package checks

import (
	"context"
	"errors"

	"github.com/redis/rueidis/rueidislock"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/conformance"
)

// frank is a client of a library that tells of a loss by ending a context. Its users see
// that as the suite expects it to be said: with locker.ErrLost for the cause, unless the
// lock was given back before. Nothing is told later than by the library. So it is with
// the error of a library that was closed.
type frank struct{ conformance.Client }

func (f frank) Acquire(ctx context.Context, name string, opts ...locker.AcquireOption) (conformance.Holding, error) {
	return tells(f.Client.Acquire(ctx, name, opts...))
}

func (f frank) TryAcquire(ctx context.Context, name string, opts ...locker.AcquireOption) (conformance.Holding, error) {
	return tells(f.Client.TryAcquire(ctx, name, opts...))
}

func tells(h conformance.Holding, err error) (conformance.Holding, error) {
	if errors.Is(err, rueidislock.ErrLockerClosed) {
		err = errors.Join(locker.ErrClosed, err)
	}
	if err != nil {
		return nil, err
	}
	own, end := context.WithCancelCause(context.Background())
	t := &telling{Holding: h, ctx: &toldContext{own, h.Context(), end}}
	context.AfterFunc(h.Context(), func() { end(locker.ErrLost) })
	return t, nil
}

type telling struct {
	conformance.Holding
	ctx *toldContext
}

func (t *telling) Context() context.Context { return t.ctx }

// Token is none: no library claims that a number of its own is one, and what is not claimed
// is not held against it.
func (t *telling) Token() int64 { return 0 }

func (t *telling) Release(ctx context.Context) error {
	_ = t.ctx.Err() // it may be lost already
	t.ctx.end(locker.ErrReleased)
	return t.Holding.Release(ctx)
}

// toldContext ends when the library's does.
type toldContext struct {
	context.Context
	library context.Context
	end     context.CancelCauseFunc
}

func (c *toldContext) Err() error {
	if c.library.Err() != nil {
		c.end(locker.ErrLost)
	}
	return c.Context.Err()
}

package locker

import (
	"context"
	"time"
)

// Lock is one holding of a name, from its acquisition to its release or loss. It
// is never used again after that. All methods may be called from any goroutine.
type Lock struct{}

// Name is the name that was taken.
func (l *Lock) Name() string { panic("soon") }

// Token is the fencing token.
func (l *Lock) Token() int64 { panic("soon") }

// Context is the lock's context.
func (l *Lock) Context() context.Context { panic("soon") }

// Deadline is when the lock is lost unless it is renewed before.
func (l *Lock) Deadline() time.Time { panic("soon") }

// Release frees the lock.
func (l *Lock) Release(ctx context.Context) error { panic("soon") }

func (l *Lock) within(ctx context.Context) (context.Context, func()) { panic("soon") }

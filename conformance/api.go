package conformance

import (
	"context"
	"iter"

	"github.com/seed80cd6120/locker"
)

// api is what package locker offers beyond the methods of a Client and a Holding. The test
// of the suite puts defects here.
type api struct {
	do            func(context.Context, locker.Locker, string, work, ...locker.AcquireOption) error
	lead          func(context.Context, locker.Locker, string, work, ...locker.AcquireOption) error
	acquireAll    func(context.Context, locker.Locker, []string, ...locker.AcquireOption) (locker.Locks, error)
	tryAcquireAll func(context.Context, locker.Locker, []string, ...locker.AcquireOption) (locker.Locks, error)
	contextOf     func(locker.Locks) context.Context
	within        func(*locker.Lock, context.Context) context.Context
	wanted        func(*locker.Lock) <-chan struct{}
	downgrade     func(*locker.Lock, context.Context) error
	inspect       func(context.Context, locker.Locker, string) ([]locker.Position, error)
	names         func(context.Context, locker.Locker, string) iter.Seq2[string, error]
	evict         func(context.Context, locker.Locker, locker.Position) error
}

// work is what Do and Lead run while they hold a lock.
type work = func(context.Context, *locker.Lock) error

// soundAPI returns what package locker offers.
func soundAPI() *api {
	return &api{
		do:            locker.Do,
		lead:          locker.Lead,
		acquireAll:    locker.AcquireAll,
		tryAcquireAll: locker.TryAcquireAll,
		contextOf:     locker.Locks.Context,
		within:        (*locker.Lock).Within,
		wanted:        (*locker.Lock).Wanted,
		downgrade:     (*locker.Lock).Downgrade,
		inspect:       locker.Inspect,
		names:         locker.Names,
		evict:         locker.Evict,
	}
}

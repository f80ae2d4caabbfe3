package conformance

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed80cd6120/locker"
)

type namesFound = iter.Seq2[string, error]

// A package locker that does not do its part.
var apiDefects = []defect{
	{
		name:  "several names are taken as they come, and kept",
		cases: "Several/AllOrNone Several/LostMeanwhile Several/Order Several/NoDeadlock",
		api:   func(a *api) { a.acquireAll = oneByOne },
	},
	{
		name:  "the context of several locks is that of the last",
		cases: "Several/Context",
		api: func(a *api) {
			a.contextOf = func(ls locker.Locks) context.Context { return ls[len(ls)-1].Context() }
		},
	},
	{
		name:  "where a ctx comes from is forgotten",
		cases: "Reentry/Held Reentry/Joins Reentry/NotMore Reentry/Lost",
		wrap:  func(l locker.Locker) locker.Locker { return forgetful{l} },
	},
	{
		name:  "whoever wants a name that is held in the process gets ErrHeld",
		cases: "Reentry/NotOthers",
		wrap:  func(l locker.Locker) locker.Locker { return refusing{l} },
	},
	{
		name:  "Within is ctx",
		cases: "Within/Cause Reentry/Held",
		api:   func(a *api) { a.within = func(_ *locker.Lock, ctx context.Context) context.Context { return ctx } },
	},
	{
		name:  "Within learns of the end by a timer",
		cases: "Within/LookTellsTime",
		api: func(a *api) {
			a.within = func(l *locker.Lock, ctx context.Context) context.Context {
				within, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
				context.AfterFunc(l.Context(), func() {
					time.Sleep(400 * time.Millisecond)
					cancel(context.Cause(l.Context()))
				})
				return within
			}
		},
	},
	{
		name:  "Do returns the function's error and no more",
		cases: "Loss/DoFails Loss/Do",
		api: func(a *api) {
			a.do = func(ctx context.Context, l locker.Locker, name string, fn work, opts ...locker.AcquireOption) error {
				lock, err := l.Acquire(ctx, name, opts...)
				if err != nil {
					return err
				}
				defer func() { _ = lock.Release(ctx) }()
				return fn(lock.Within(ctx), lock)
			}
		},
	},
	{
		name:  "whoever campaigns leads",
		cases: "Lead/OneAtATime Lead/Returns",
		api: func(a *api) {
			var n atomic.Int64
			a.lead = func(ctx context.Context, l locker.Locker, name string, fn work, opts ...locker.AcquireOption) error {
				return locker.Lead(ctx, l, name+string(rune('a'+n.Add(1))), fn, opts...)
			}
		},
	},
	{
		name:  "a leader that loses the lead gives up",
		cases: "Lead/AgainAfterLoss",
		api:   func(a *api) { a.lead = locker.Do },
	},
	{
		name:  "whoever has led leads again",
		cases: "Lead/Returns Lead/AgainAfterLoss",
		api: func(a *api) {
			a.lead = func(ctx context.Context, l locker.Locker, name string, fn work, opts ...locker.AcquireOption) error {
				for ctx.Err() == nil {
					_ = locker.Do(ctx, l, name, fn, opts...)
				}
				return ctx.Err()
			}
		},
	},
	{
		name:  "always wanted",
		cases: "Wanted/Nobody",
		api: func(a *api) {
			closed := make(chan struct{})
			close(closed)
			a.wanted = func(*locker.Lock) <-chan struct{} { return closed }
		},
	},
	{
		name:  "wanted once",
		cases: "Wanted/Hint",
		api: func(a *api) {
			var asked atomic.Bool
			a.wanted = func(*locker.Lock) <-chan struct{} {
				news := make(chan struct{})
				if !asked.Swap(true) {
					close(news)
				}
				return news
			}
		},
	},
	{
		name:  "ctx is not looked at by those who only look",
		cases: "Inspect/Errors",
		api: func(a *api) {
			a.inspect = func(ctx context.Context, l locker.Locker, name string) ([]locker.Position, error) {
				return locker.Inspect(context.WithoutCancel(ctx), l, name)
			}
		},
	},
	{
		name:  "a lock that was lost is made shared without a word",
		cases: "Downgrade/Lost",
		api: func(a *api) {
			a.downgrade = func(l *locker.Lock, ctx context.Context) error {
				if err := l.Downgrade(ctx); !errors.Is(err, locker.ErrLost) {
					return err
				}
				return nil
			}
		},
	},
}

// oneByOne takes several names in the order in which they are given.
func oneByOne(ctx context.Context, l locker.Locker, names []string, opts ...locker.AcquireOption) (all locker.Locks, err error) {
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			continue
		}
		lock, err := l.Acquire(ctx, name, opts...)
		if err != nil {
			return nil, err
		}
		all = append(all, lock)
	}
	return all, nil
}

// forgetful is a Locker that does not see where a ctx comes from.
type forgetful struct{ locker.Locker }

func (f forgetful) Unwrap() locker.Locker { return f.Locker }

func (f forgetful) Acquire(ctx context.Context, name string, opts ...locker.AcquireOption) (*locker.Lock, error) {
	return f.Locker.Acquire(noValues{ctx}, name, opts...)
}

func (f forgetful) TryAcquire(ctx context.Context, name string, opts ...locker.AcquireOption) (*locker.Lock, error) {
	return f.Locker.TryAcquire(noValues{ctx}, name, opts...)
}

// refusing is a Locker to which a name that is held in the process is held by the caller.
type refusing struct{ locker.Locker }

var heldHere sync.Map

func (r refusing) Unwrap() locker.Locker { return r.Locker }

func (r refusing) Acquire(ctx context.Context, name string, opts ...locker.AcquireOption) (*locker.Lock, error) {
	if _, held := heldHere.Load(name); held {
		return nil, locker.ErrHeld
	}
	lock, err := r.Locker.Acquire(ctx, name, opts...)
	if err == nil {
		heldHere.Store(name, true)
		context.AfterFunc(lock.Context(), func() { heldHere.Delete(name) })
	}
	return lock, err
}

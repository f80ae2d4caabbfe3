package conformance

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed80cd6120/locker"
)

// twist makes the constructor of a defect of the lock itself.
func twist(change func(h Holding, t *twisted)) func() func(Client) *rigged {
	return rig(rigged{holding: func(h Holding) Holding {
		t := &twisted{Holding: h}
		change(h, t)
		return t
	}})
}

// inContext makes the constructor of a defect of a lock's context.
func inContext(wrap func(context.Context) context.Context) func() func(Client) *rigged {
	return twist(func(h Holding, t *twisted) {
		t.context = func() context.Context { return wrap(h.Context()) }
	})
}

// releasing makes the constructor of a defect of Release.
func releasing(release func(h Holding, ctx context.Context) error) func() func(Client) *rigged {
	return twist(func(h Holding, t *twisted) {
		t.release = func(ctx context.Context) error { return release(h, ctx) }
	})
}

// unlessEnded does nothing once ctx has ended.
func unlessEnded(ctx context.Context, do func() error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return do()
}

// A lock that does not do its part.
var holdingDefects = []defect{
	{
		name:   "no token",
		cases:  "Fencing/OneLocker Fencing/ManyLockers",
		client: twist(func(_ Holding, t *twisted) { t.token = func() int64 { return 0 } }),
	},
	{
		name:  "tokens counted by each Locker for itself",
		cases: "Fencing/ManyLockers Fencing/Distinct Fencing/AfterTakeover",
		client: func() func(Client) *rigged {
			return func(Client) *rigged {
				var n atomic.Int64
				return &rigged{holding: func(h Holding) Holding {
					token := n.Add(1)
					return &twisted{Holding: h, token: func() int64 { return token }}
				}}
			}
		},
	},
	{
		name:   "tokens taken from the clock of each look",
		cases:  "Fencing/Steady",
		client: twist(func(_ Holding, t *twisted) { t.token = func() int64 { return time.Now().UnixNano() } }),
	},
	{
		name:   "Name is the key",
		cases:  "Names/Name",
		client: twist(func(h Holding, t *twisted) { t.name = func() string { return "lock:" + h.Name() } }),
	},
	{
		name:   "the deadline is never told",
		cases:  "Loss/Deadline",
		client: twist(func(_ Holding, t *twisted) { t.deadline = func() time.Time { return time.Time{} } }),
	},
	{
		name:  "the context learns of the end by a timer",
		cases: "Loss/LookTellsTime Loss/Frozen Loss/StoppedProcess",
		client: twist(func(h Holding, t *twisted) {
			ctx, cancel := context.WithCancelCause(context.Background())
			go func() {
				<-h.Context().Done()
				cause := context.Cause(h.Context())
				time.Sleep(400 * time.Millisecond)
				cancel(cause)
			}()
			t.context = func() context.Context { return ctx }
		}),
	},
	{
		name:  "the context has no cause",
		cases: "Loss/Lease Loss/CauseReleased Loss/CauseStays Loss/RepliesLost Loss/Destroyed",
		client: twist(func(h Holding, t *twisted) {
			ctx, cancel := context.WithCancel(context.Background())
			context.AfterFunc(h.Context(), cancel)
			t.context = func() context.Context { return ctx }
			t.release = func(c context.Context) error {
				err := h.Release(c)
				cancel()
				return err
			}
		}),
	},
	{
		name:   "released or lost, always lost",
		cases:  "Loss/CauseReleased Close/ReleasesHeld",
		client: inContext(func(ctx context.Context) context.Context { return causeContext{ctx} }),
	},
	{
		name:   "the context is never done",
		cases:  "Loss/DoneAndErrAgree",
		client: inContext(func(ctx context.Context) context.Context { return neverDone{ctx} }),
	},
	{
		name:  "the context is alive again after a while",
		cases: "Loss/StaysLost",
		client: twist(func(h Holding, t *twisted) {
			var lost atomic.Bool
			t.context = func() context.Context {
				if h.Context().Err() != nil && lost.Swap(true) {
					return context.Background()
				}
				return h.Context()
			}
		}),
	},
	{
		name:  "the lock ends with the ctx of Acquire",
		cases: "Loss/ContextOfCaller Release/AcquireContextEnded",
		client: rig(rigged{acquire: func(next Client, ctx ctx, name string, opts ...locker.AcquireOption) (Holding, error) {
			h, err := next.Acquire(ctx, name, opts...)
			if err != nil {
				return nil, err
			}
			return &twisted{
				Holding: h,
				context: func() context.Context { return ctx },
				release: func(c context.Context) error { return unlessEnded(ctx, func() error { return h.Release(c) }) },
			}, nil
		}}),
	},
	{
		name:   "no values in the lock's context",
		cases:  "Loss/ContextOfCaller",
		client: inContext(func(ctx context.Context) context.Context { return noValues{ctx} }),
	},
	{
		name:  "released twice is an error",
		cases: "Release/Twice Release/ManyAtOnce Release/AfterClose",
		client: twist(func(h Holding, t *twisted) {
			var n atomic.Int64
			t.release = func(ctx context.Context) error {
				if n.Add(1) > 1 || h.Context().Err() != nil && errors.Is(context.Cause(h.Context()), locker.ErrClosed) {
					return errors.New("not held")
				}
				return h.Release(ctx)
			}
		}),
	},
	{
		name:   "released twice frees the successor",
		cases:  "Release/Twice Release/TwiceOwnSuccessor",
		client: freesSuccessor,
	},
	{
		name:  "a lost lock is released without a word",
		cases: "Release/AfterLease Release/AfterDestroy Release/AfterTakeover Errors/Fields",
		client: releasing(func(h Holding, ctx context.Context) error {
			if err := h.Release(ctx); !errors.Is(err, locker.ErrLost) {
				return err
			}
			return nil
		}),
	},
	{
		name:  "a release with an ended ctx does nothing",
		cases: "Release/EndedContext",
		client: releasing(func(h Holding, ctx context.Context) error {
			return unlessEnded(ctx, func() error { return h.Release(ctx) })
		}),
	},
	{
		name:  "a release waits for the server",
		cases: "Prompt/ReleaseOverFrozenLink",
		client: releasing(func(h Holding, ctx context.Context) error {
			long, cancel := detached(ctx, 20*time.Second)
			defer cancel()
			err := h.Release(long)
			if err != nil && ctx.Err() != nil {
				err = ctx.Err()
			}
			return err
		}),
	},
	{
		name:   "a release frees all locks of the Locker",
		cases:  "Release/OnlyItsName",
		client: freesAll,
	},
}

// freesSuccessor releases whatever lock of that name was taken last.
func freesSuccessor() func(Client) *rigged {
	var mu sync.Mutex
	last := make(map[string]Holding)
	return func(Client) *rigged {
		return &rigged{holding: func(h Holding) Holding {
			mu.Lock()
			defer mu.Unlock()
			last[h.Name()] = h
			return &twisted{Holding: h, release: func(ctx context.Context) error {
				mu.Lock()
				h := last[h.Name()]
				mu.Unlock()
				return h.Release(ctx)
			}}
		}}
	}
}

func freesAll() func(Client) *rigged {
	return func(Client) *rigged {
		var mu sync.Mutex
		var all []Holding
		return &rigged{holding: func(h Holding) Holding {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, h)
			return &twisted{Holding: h, release: func(ctx context.Context) error {
				mu.Lock()
				defer mu.Unlock()
				for _, other := range all {
					_ = other.Release(ctx)
				}
				return h.Release(ctx)
			}}
		}}
	}
}

// causeContext says lost however it ended.
type causeContext struct{ context.Context }

func (c causeContext) Value(key any) any {
	if c.Context.Err() == nil {
		return c.Context.Value(key)
	}
	lost, cancel := context.WithCancelCause(context.Background())
	cancel(locker.ErrLost)
	return lost.Value(key)
}

type neverDone struct{ context.Context }

func (neverDone) Done() <-chan struct{} { return nil }

type noValues struct{ context.Context }

func (noValues) Value(any) any { return nil }

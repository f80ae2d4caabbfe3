package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed80cd6120/locker"
)

// rig makes the constructor of a defect that keeps no state.
func rig(r rigged) func() func(Client) *rigged {
	return func() func(Client) *rigged {
		return func(Client) *rigged { x := r; return &x }
	}
}

// leak is a goroutine that never ends.
func leak() { go func() { select {} }() }

type ctx = context.Context

// A Locker that does not do its part.
var clientDefects = []defect{
	{
		name:  "ctx is not looked at",
		cases: "Prompt/Deadline Prompt/Cancel Prompt/QueuedGoroutine Prompt/FinishedContext Prompt/AcquireOverFrozenLink Prompt/WaiterOverFrozenLink Prompt/AcquireOverCutLink Prompt/ServerGone Ghosts/InvalidCalls",
		client: rig(rigged{acquire: func(next Client, ctx ctx, name string, opts ...locker.AcquireOption) (Holding, error) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
			defer cancel()
			return next.Acquire(ctx, name, opts...)
		}}),
	},
	{
		name:  "ctx is not looked at by TryAcquire",
		cases: "Prompt/TryOverFrozenLink Prompt/FinishedContext",
		client: rig(rigged{try: func(next Client, ctx ctx, name string, opts ...locker.AcquireOption) (Holding, error) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
			defer cancel()
			return next.TryAcquire(ctx, name, opts...)
		}}),
	},
	{
		name:  "returns two seconds after ctx",
		cases: "Prompt/Deadline Prompt/Cancel Prompt/AcquireOverFrozenLink",
		client: rig(rigged{acquire: func(next Client, ctx ctx, name string, opts ...locker.AcquireOption) (Holding, error) {
			h, err := next.Acquire(ctx, name, opts...)
			if err != nil {
				time.Sleep(2 * time.Second)
			}
			return h, err
		}}),
	},
	{
		name:  "an error of its own when ctx ends",
		cases: "Prompt/Deadline Prompt/Cancel Prompt/Cause Errors/Fields Ghosts/QueuedGoroutine",
		client: rig(rigged{acquire: func(next Client, ctx ctx, name string, opts ...locker.AcquireOption) (Holding, error) {
			h, err := next.Acquire(ctx, name, opts...)
			if err != nil && ctx.Err() != nil {
				err = errors.New("failed to acquire lock")
			}
			return h, err
		}}),
	},
	{
		name:  "plain errors",
		cases: "Errors/Fields Errors/Unreachable Errors/ServerGone",
		client: rig(rigged{
			acquire: func(next Client, ctx ctx, name string, opts ...locker.AcquireOption) (Holding, error) {
				h, err := next.Acquire(ctx, name, opts...)
				return h, plain(err)
			},
			try: func(next Client, ctx ctx, name string, opts ...locker.AcquireOption) (Holding, error) {
				h, err := next.TryAcquire(ctx, name, opts...)
				return h, plain(err)
			},
		}),
	},
	{
		name:  "taken is an error of its own",
		cases: "Exclusion/TryOfHeld",
		client: rig(rigged{try: func(next Client, ctx ctx, name string, opts ...locker.AcquireOption) (Holding, error) {
			h, err := next.TryAcquire(ctx, name, opts...)
			if errors.Is(err, locker.ErrNotAcquired) {
				err = errors.New("busy")
			}
			return h, err
		}}),
	},
	{
		name:  "any name is mended",
		cases: "Names/Invalid",
		client: rig(rigged{acquire: func(next Client, ctx ctx, name string, opts ...locker.AcquireOption) (Holding, error) {
			if name == "" {
				name = "default"
			}
			return next.Acquire(ctx, name[:min(len(name), locker.MaxName)], opts...)
		}}),
	},
	{
		name:  "the server is asked first",
		cases: "Errors/NothingSent",
		client: rig(rigged{acquire: func(next Client, ctx ctx, name string, opts ...locker.AcquireOption) (Holding, error) {
			if ctx.Err() != nil {
				if h, err := next.TryAcquire(context.WithoutCancel(ctx), name); err == nil {
					_ = h.Release(context.WithoutCancel(ctx))
				}
			}
			return next.Acquire(ctx, name, opts...)
		}}),
	},
	{
		name:  "options are not looked at",
		cases: "Errors/Options",
		harness: func(h *Harness) {
			open := h.Open
			h.Open = func(ctx context.Context, opts ...locker.Option) (locker.Locker, error) { return open(ctx) }
		},
	},
	{
		name:  "the lock is left to the call that gave up",
		cases: "Ghosts/QueuedGoroutine Ghosts/CancelledWaiter",
		client: rig(rigged{acquire: func(next Client, ctx ctx, name string, opts ...locker.AcquireOption) (Holding, error) {
			type answer struct {
				h   Holding
				err error
			}
			answers := make(chan answer, 1)
			go func() {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
				defer cancel()
				h, err := next.Acquire(ctx, name, opts...)
				answers <- answer{h, err}
			}()
			select {
			case a := <-answers:
				return a.h, a.err
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}}),
	},
	{
		name:   "one name at a time",
		cases:  "Many/WaitedNameDelaysNoOther Many/TwoNamesWaited Prompt/QueuedGoroutine",
		client: oneAtATime,
	},
	{
		name:   "goroutines take turns at random",
		cases:  "Fair/Goroutines",
		client: backwards,
	},
	{
		name:  "each goroutine asks the server",
		cases: "Cheap/GoroutinesWaitAtHome",
		client: rig(rigged{acquire: func(next Client, ctx ctx, name string, opts ...locker.AcquireOption) (Holding, error) {
			if h, err := next.TryAcquire(ctx, name, opts...); err == nil {
				return h, nil
			}
			return next.Acquire(ctx, name, opts...)
		}}),
	},
	{
		name:   "every acquisition leaks a goroutine",
		cases:  "Litter/GoroutinesOfNames Litter/GoroutinesOfHeld Litter/GoroutinesOfLost",
		client: rig(rigged{holding: func(h Holding) Holding { leak(); return h }}),
	},
	{
		name:  "every cancelled wait leaks a goroutine",
		cases: "Litter/GoroutinesOfWaiters",
		client: rig(rigged{acquire: func(next Client, ctx ctx, name string, opts ...locker.AcquireOption) (Holding, error) {
			h, err := next.Acquire(ctx, name, opts...)
			if err != nil {
				leak()
			}
			return h, err
		}}),
	},
	{
		name:  "Close leaves a goroutine",
		cases: "Close/StopsGoroutines",
		client: rig(rigged{close: func(next Client, ctx ctx) error {
			leak()
			return next.Close(ctx)
		}}),
	},
	{
		name:   "Close does nothing",
		cases:  "Close/ReleasesHeld Close/EndsWaiters Close/UseAfterwards Close/Unreachable Close/InTheMiddle Close/EndedContext Litter/ClosedLockers Ghosts/ClosedWhileWaiting Release/AfterClose",
		client: rig(rigged{close: func(Client, ctx) error { return nil }}),
	},
	{
		name:  "Close needs a ctx that has not ended",
		cases: "Close/EndedContext",
		client: rig(rigged{close: func(next Client, ctx ctx) error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return next.Close(ctx)
		}}),
	},
	{
		name:  "Close twice is an error",
		cases: "Close/UseAfterwards Close/InTheMiddle",
		client: func() func(Client) *rigged {
			return func(Client) *rigged {
				var closed atomic.Bool
				return &rigged{close: func(next Client, ctx ctx) error {
					if closed.Swap(true) {
						return errors.New("already closed")
					}
					return next.Close(ctx)
				}}
			}
		},
	},
	{
		name:  "Close hangs without use",
		cases: "Close/Unused",
		client: func() func(Client) *rigged {
			return func(Client) *rigged {
				used := make(chan struct{}, 100)
				return &rigged{
					holding: func(h Holding) Holding { used <- struct{}{}; return h },
					close: func(next Client, ctx ctx) error {
						select {
						case <-used:
						case <-ctx.Done():
							return ctx.Err()
						}
						return next.Close(ctx)
					},
				}
			}
		},
	},
	{
		name:  "Close waits for the server",
		cases: "Prompt/CloseOverFrozenLink",
		client: rig(rigged{close: func(next Client, ctx ctx) error {
			long, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
			defer cancel()
			_ = next.Close(long)
			return ctx.Err()
		}}),
	},
	{
		name:  "Close closes what all share",
		cases: "Close/LeavesOthers",
		client: func() func(Client) *rigged {
			var mu sync.Mutex
			var all []Client
			return func(next Client) *rigged {
				mu.Lock()
				defer mu.Unlock()
				all = append(all, next)
				return &rigged{close: func(next Client, ctx ctx) error {
					mu.Lock()
					defer mu.Unlock()
					for _, c := range all {
						_ = c.Close(ctx)
					}
					return nil
				}}
			}
		},
	},
}

func plain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, locker.ErrNotAcquired):
		return locker.ErrNotAcquired
	}
	return fmt.Errorf("lock: %s", err)
}

// oneAtATime has the goroutines of a Locker wait for each other, whatever they want.
func oneAtATime() func(Client) *rigged {
	return func(Client) *rigged {
		var mu sync.Mutex
		return &rigged{acquire: func(next Client, ctx ctx, name string, opts ...locker.AcquireOption) (Holding, error) {
			mu.Lock()
			defer mu.Unlock()
			return next.Acquire(ctx, name, opts...)
		}}
	}
}

// backwards gives a name to the goroutine that came last.
func backwards() func(Client) *rigged {
	return func(Client) *rigged {
		var mu sync.Mutex
		var waiting []chan struct{}
		held := false
		leave := func() {
			mu.Lock()
			defer mu.Unlock()
			if n := len(waiting); n > 0 {
				close(waiting[n-1])
				waiting = waiting[:n-1]
				return
			}
			held = false
		}
		return &rigged{acquire: func(next Client, ctx ctx, name string, opts ...locker.AcquireOption) (Holding, error) {
			mu.Lock()
			if held {
				turn := make(chan struct{})
				waiting = append(waiting, turn)
				mu.Unlock()
				<-turn
			} else {
				held = true
				mu.Unlock()
			}
			h, err := next.Acquire(ctx, name, opts...)
			if err != nil {
				leave()
				return nil, err
			}
			return &twisted{Holding: h, release: func(ctx context.Context) error {
				defer leave()
				return h.Release(ctx)
			}}, nil
		}}
	}
}

// twist makes the constructor of a defect of the lock itself.
func twist(change func(h Holding, t *twisted)) func() func(Client) *rigged {
	return rig(rigged{holding: func(h Holding) Holding {
		t := &twisted{Holding: h}
		change(h, t)
		return t
	}})
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
		name:  "released or lost, always lost",
		cases: "Loss/CauseReleased Close/ReleasesHeld",
		client: twist(func(h Holding, t *twisted) {
			t.context = func() context.Context { return causeContext{h.Context()} }
		}),
	},
	{
		name:  "the context is never done",
		cases: "Loss/DoneAndErrAgree",
		client: twist(func(h Holding, t *twisted) {
			t.context = func() context.Context { return neverDone{h.Context()} }
		}),
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
				release: func(c context.Context) error {
					if ctx.Err() != nil {
						return ctx.Err()
					}
					return h.Release(c)
				},
			}, nil
		}}),
	},
	{
		name:  "no values in the lock's context",
		cases: "Loss/ContextOfCaller",
		client: twist(func(h Holding, t *twisted) {
			t.context = func() context.Context { return noValues{h.Context()} }
		}),
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
		client: twist(func(h Holding, t *twisted) {
			t.release = func(ctx context.Context) error {
				if err := h.Release(ctx); !errors.Is(err, locker.ErrLost) {
					return err
				}
				return nil
			}
		}),
	},
	{
		name:  "a release with an ended ctx does nothing",
		cases: "Release/EndedContext",
		client: twist(func(h Holding, t *twisted) {
			t.release = func(ctx context.Context) error {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				return h.Release(ctx)
			}
		}),
	},
	{
		name:  "a release waits for the server",
		cases: "Prompt/ReleaseOverFrozenLink",
		client: twist(func(h Holding, t *twisted) {
			t.release = func(ctx context.Context) error {
				long, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
				defer cancel()
				if err := h.Release(long); err != nil && ctx.Err() != nil {
					return ctx.Err()
				} else {
					return err
				}
			}
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

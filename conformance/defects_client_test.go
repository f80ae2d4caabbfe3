package conformance

import (
	"context"
	"crypto/rand"
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

// answer makes an acquisition of one whose answer is changed.
func answer(acquire riggedAcquire, change func(ctx ctx, h Holding, err error) (Holding, error)) riggedAcquire {
	return func(next Client, ctx ctx, name string, opts ...locker.AcquireOption) (Holding, error) {
		h, err := acquire(next, ctx, name, opts...)
		return change(ctx, h, err)
	}
}

// heedless makes an acquisition of one that goes on for a while whatever becomes of ctx.
func heedless(acquire riggedAcquire) riggedAcquire {
	return func(next Client, ctx ctx, name string, opts ...locker.AcquireOption) (Holding, error) {
		ctx, cancel := detached(ctx, 20*time.Second)
		defer cancel()
		return acquire(next, ctx, name, opts...)
	}
}

// whenReleased calls then when h has been released.
func whenReleased(h Holding, then func()) Holding {
	return &twisted{Holding: h, release: func(ctx context.Context) error {
		defer then()
		return h.Release(ctx)
	}}
}

// leak is a goroutine that never ends.
func leak() { go func() { select {} }() }

// detached is a context that ends after d, whatever becomes of ctx.
func detached(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), d)
}

// aside leaves do to itself when ctx ends.
func aside[T any](ctx context.Context, do func() (T, error)) (v T, err error) {
	done := make(chan func() (T, error), 1)
	go func() {
		v, err := do()
		done <- func() (T, error) { return v, err }
	}()
	select {
	case answer := <-done:
		return answer()
	case <-ctx.Done():
		return v, ctx.Err()
	}
}

type ctx = context.Context

// A Locker that does not do its part.
var clientDefects = []defect{
	{
		name: "ctx is not looked at",
		cases: `Prompt/Deadline Prompt/Cancel Prompt/QueuedGoroutine Prompt/FinishedContext
			Prompt/AcquireOverFrozenLink Prompt/WaiterOverFrozenLink Prompt/AcquireOverCutLink Prompt/ServerGone
			Ghosts/InvalidCalls`,
		client: rig(rigged{acquire: heedless(Client.Acquire)}),
	},
	{
		name:   "ctx is not looked at by TryAcquire",
		cases:  "Prompt/TryOverFrozenLink Prompt/FinishedContext",
		client: rig(rigged{try: heedless(Client.TryAcquire)}),
	},
	{
		name:  "returns twenty seconds after ctx",
		cases: "Prompt/Deadline Prompt/Cancel Prompt/AcquireOverFrozenLink",
		client: rig(rigged{acquire: answer(Client.Acquire, func(_ ctx, h Holding, err error) (Holding, error) {
			if err != nil {
				time.Sleep(20 * time.Second)
			}
			return h, err
		})}),
	},
	{
		name:  "an error of its own when ctx ends",
		cases: "Prompt/Deadline Prompt/Cancel Prompt/Cause Errors/Fields Ghosts/QueuedGoroutine",
		client: rig(rigged{acquire: answer(Client.Acquire, func(ctx ctx, h Holding, err error) (Holding, error) {
			if err != nil && ctx.Err() != nil {
				err = errors.New("failed to acquire lock")
			}
			return h, err
		})}),
	},
	{
		name:   "plain errors",
		cases:  "Errors/Fields Errors/Unreachable Errors/ServerGone",
		client: rig(rigged{acquire: answer(Client.Acquire, plain), try: answer(Client.TryAcquire, plain)}),
	},
	{
		name:  "taken is an error of its own",
		cases: "Exclusion/TryOfHeld",
		client: rig(rigged{try: answer(Client.TryAcquire, func(_ ctx, h Holding, err error) (Holding, error) {
			if errors.Is(err, locker.ErrNotAcquired) {
				err = errors.New("busy")
			}
			return h, err
		})}),
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
			return aside(ctx, func() (Holding, error) {
				ctx, cancel := detached(ctx, 30*time.Second)
				defer cancel()
				return next.Acquire(ctx, name, opts...)
			})
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
		name:   "each goroutine asks the server",
		cases:  "Cheap/GoroutinesWaitAtHome",
		client: eachAsks,
	},
	{
		name:   "every acquisition leaks a goroutine",
		cases:  "Litter/GoroutinesOfNames Litter/GoroutinesOfHeld Litter/GoroutinesOfLost",
		client: rig(rigged{holding: func(h Holding) Holding { leak(); return h }}),
	},
	{
		name:  "every cancelled wait leaks a goroutine",
		cases: "Litter/GoroutinesOfWaiters",
		client: rig(rigged{acquire: answer(Client.Acquire, func(_ ctx, h Holding, err error) (Holding, error) {
			if err != nil {
				leak()
			}
			return h, err
		})}),
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
		name: "Close does nothing",
		cases: `Close/ReleasesHeld Close/EndsWaiters Close/UseAfterwards Close/Unreachable Close/InTheMiddle
			Close/EndedContext Litter/ClosedLockers Ghosts/ClosedWhileWaiting Release/AfterClose`,
		client: rig(rigged{close: func(Client, ctx) error { return nil }}),
	},
	{
		name:  "Close needs a ctx that has not ended",
		cases: "Close/EndedContext",
		client: rig(rigged{close: func(next Client, ctx ctx) error {
			return unlessEnded(ctx, func() error { return next.Close(ctx) })
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
			long, cancel := detached(ctx, 20*time.Second)
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

// plain answers with an error that tells nothing but whether the name is taken.
func plain(_ ctx, h Holding, err error) (Holding, error) {
	switch {
	case errors.Is(err, locker.ErrNotAcquired):
		err = locker.ErrNotAcquired
	case err != nil:
		err = fmt.Errorf("lock: %s", err)
	}
	return h, err
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

// eachAsks asks the server for every goroutine that does not wait alone.
func eachAsks() func(Client) *rigged {
	return func(Client) *rigged {
		var waiting atomic.Int32
		return &rigged{acquire: func(next Client, ctx ctx, name string, opts ...locker.AcquireOption) (Holding, error) {
			defer waiting.Add(-1)
			if waiting.Add(1) > 1 {
				for range 8 { // ten times what is allowed, which fails also where the machine is late
					if h, err := next.TryAcquire(ctx, name+rand.Text(), opts...); err == nil {
						_ = h.Release(ctx)
					}
				}
			}
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
			return whenReleased(h, leave), nil
		}}
	}
}

package conformance

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/seed80cd6120/locker"
)

// cause returns why a lock is no longer held.
func cause(h Holding) error { return context.Cause(h.Context()) }

var severalCases = []*testCase{
	{
		name: "Several/AllOrNone", promise: 1, needs: madeByLocker,
		says: "AcquireAll and TryAcquireAll take all names or none.",
		run: func(c *C) {
			names := []string{c.name("a"), c.name("b"), c.name("c")}
			l, other := c.openLocker(), c.open()
			for i, name := range names {
				h := other.acquire(name)
				if _, err := c.b.api.tryAcquireAll(c.ctx, l.locker, names); !errors.Is(err, locker.ErrNotAcquired) {
					c.errorf("TryAcquireAll while number %d is held: %v", i, err)
				}
				ctx, cancel := context.WithTimeout(c.ctx, 100*time.Millisecond)
				if _, err := c.b.api.acquireAll(ctx, l.locker, names); !errors.Is(err, context.DeadlineExceeded) {
					c.errorf("AcquireAll while number %d is held: %v", i, err)
				}
				cancel()
				for j, free := range names {
					if i != j {
						other.free(free, ghostBound)
					}
				}
				c.release(h)
			}
			for _, take := range []takeAll{c.b.api.acquireAll, c.b.api.tryAcquireAll} {
				locks, err := take(c.ctx, l.locker, names)
				if err != nil {
					c.fatalf("all are free: %v", err)
				}
				for _, name := range names {
					other.taken(name)
				}
				if err := locks.Release(c.ctx); err != nil {
					c.errorf("release: %v", err)
				}
			}
			c.exorcised(names...)
		},
	},
	{
		name: "Several/LostMeanwhile", promise: 3, needs: madeByLocker,
		says: "If one of several names is lost before the last is there all go back, with ErrLost.",
		run: func(c *C) {
			first, last := c.name("a"), c.name("b")
			h := c.open().acquire(last)
			l := c.openLocker()
			done := make(chan error, 1)
			go func() {
				_, err := c.b.api.acquireAll(c.ctx, l.locker, []string{first, last}, locker.WithLease(shortLease))
				done <- err
			}()
			probe := c.open()
			c.within(soon, func() bool { // until the first is held: a lease begins only then
				other, err := probe.try(first)
				if err == nil {
					c.release(other)
				}
				return err != nil
			})
			time.Sleep(2 * shortLease)
			c.release(h)
			select {
			case err := <-done:
				if !errors.Is(err, locker.ErrLost) {
					c.errorf("AcquireAll: %v, want ErrLost", err)
				}
			case <-time.After(soon):
				c.fatalf("AcquireAll does not return although a lock is lost")
			}
			c.exorcised(first, last)
		},
	},
	{
		name: "Several/Order", promise: 1, needs: madeByLocker,
		says: "Several names are taken in the order of their bytes, each once however often it is named.",
		run: func(c *C) {
			base := c.name("")
			var names []string
			for _, x := range []string{"b", "a", "é", "B", "a/", "a", "\xff", "10", "9", "b", "\x00"} {
				names = append(names, base+x)
			}
			want := slices.Compact(slices.Sorted(slices.Values(names)))
			for _, take := range []takeAll{c.b.api.acquireAll, c.b.api.tryAcquireAll} {
				locks, err := take(c.ctx, c.openLocker().locker, names)
				if err != nil {
					c.fatalf("all are free: %v", err)
				}
				var got []string
				for _, l := range locks {
					got = append(got, l.Name())
				}
				if !slices.Equal(got, want) {
					c.errorf("taken were %q, want %q", got, want)
				}
				if err := locks.Release(c.ctx); err != nil {
					c.errorf("release: %v", err)
				}
			}
		},
	},
	{
		name: "Several/NoDeadlock", promise: 10, needs: madeByLocker,
		says: "Callers who take overlapping sets of names never wait for each other in a circle.",
		run: func(c *C) {
			x, y, z := c.name("x"), c.name("y"), c.name("z")
			sets := [][]string{{x, y, z}, {z, y, x}, {y, x}, {z, x}, {y, z}}
			var wg sync.WaitGroup
			for _, set := range sets {
				l := c.openLocker()
				wg.Go(func() {
					for range 15 {
						ctx, cancel := context.WithTimeout(c.ctx, 4*soon)
						locks, err := c.b.api.acquireAll(ctx, l.locker, set)
						cancel()
						if err != nil {
							c.fatalf("AcquireAll: %v", err)
						}
						if err := locks.Release(c.ctx); err != nil {
							c.errorf("release: %v", err)
						}
					}
				})
			}
			wg.Wait()
		},
	},
	{
		name: "Several/Context", promise: 3, needs: madeByLocker,
		says: "The context of several locks ends with the first that ends, with its cause.",
		run: func(c *C) {
			l := c.openLocker()
			names := []string{c.name("a"), c.name("b"), c.name("c")}
			for i := range names {
				locks, err := c.b.api.acquireAll(c.ctx, l.locker, names)
				if err != nil {
					c.fatalf("AcquireAll: %v", err)
				}
				ctx := c.b.api.contextOf(locks)
				if ctx.Err() != nil {
					c.errorf("the context of locks that are held: %v", context.Cause(ctx))
				}
				c.release(locks[i])
				c.within(soon, func() bool { return ctx.Err() != nil })
				if !errors.Is(context.Cause(ctx), locker.ErrReleased) {
					c.errorf("number %d was released: %v", i, context.Cause(ctx))
				}
				if err := locks.Release(c.ctx); err != nil {
					c.errorf("release: %v", err)
				}
			}
			locks, err := c.b.api.acquireAll(c.ctx, l.locker, names, locker.WithLease(c.b.TTL))
			switch {
			case errors.Is(err, locker.ErrLost):
				c.tooSlow() // the first lease was over before the last name was there
				return
			case err != nil:
				c.fatalf("AcquireAll: %v", err)
			}
			ctx := c.b.api.contextOf(locks)
			select {
			case <-ctx.Done():
			case <-time.After(soon):
			}
			if !errors.Is(context.Cause(ctx), locker.ErrLost) {
				c.errorf("the leases are over: %v", context.Cause(ctx))
			}
		},
	},
}

type takeAll = func(context.Context, locker.Locker, []string, ...locker.AcquireOption) (locker.Locks, error)

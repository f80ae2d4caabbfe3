package conformance

import (
	"context"
	"slices"
	"time"

	"github.com/seed80cd6120/locker"
)

var severalCases = []*testCase{
	newCase("Several/AllOrNone", 1).needing(madeByLocker).proves(
		"AcquireAll and TryAcquireAll take all names or none.",
		func(c *C) {
			names := c.names(3)
			l, other := c.openLocker().locker, c.open()
			for _, take := range []takeAll{c.b.api.acquireAll, c.b.api.tryAcquireAll} {
				locks := c.several(take, l, names)
				for _, name := range names {
					other.taken(name)
				}
				c.expect(locks.Release(c.ctx), nil, "release")
			}
			// What is left of a call that ends early may yet come to the servers for a moment.
			for i, name := range names {
				h := other.acquire(name)
				_, err := c.b.api.tryAcquireAll(c.ctx, l, names)
				c.expect(err, locker.ErrNotAcquired, "TryAcquireAll while number %d is held", i)
				ctx, cancel := context.WithTimeout(c.ctx, 100*time.Millisecond)
				_, err = c.b.api.acquireAll(ctx, l, names)
				c.expect(err, context.DeadlineExceeded, "AcquireAll while number %d is held", i)
				cancel()
				for _, free := range names {
					if free != name {
						other.free(free, cleanupBound)
					}
				}
				c.release(h)
			}
			c.leftFree(names...)
		}),
	newCase("Several/LostMeanwhile", 3).needing(madeByLocker).proves(
		"If one of several names is lost before the last is there all go back, with ErrLost.",
		func(c *C) {
			names := c.names(2)
			h := c.open().acquire(names[1])
			lost := make(chan struct{}, len(names))
			l := c.openLocker(locker.WithObserver(&locker.Observer{Lost: func(*locker.Lock, error) { lost <- struct{}{} }}))
			done := make(chan struct{})
			var err error
			go func() {
				defer close(done)
				_, err = c.b.api.acquireAll(c.ctx, l.locker, names, locker.WithLease(shortLease))
			}()
			select {
			case <-lost:
			case <-time.After(soon): // without an observer it has to be lost by now
			}
			c.release(h)
			if !c.closes(done, soon) {
				c.fatalf("AcquireAll does not return although a lock is lost")
			}
			c.expect(err, locker.ErrLost, "AcquireAll")
			c.leftFree(names...)
		}),
	newCase("Several/Order", 1).needing(madeByLocker).proves(
		"Several names are taken in the order of their bytes, each once however often it is named.",
		func(c *C) {
			base := c.name("")
			var names []string
			for _, x := range []string{"b", "a", "é", "B", "a/", "a", "\xff", "10", "9", "b", "\x00"} {
				names = append(names, base+x)
			}
			want := slices.Compact(slices.Sorted(slices.Values(names)))
			for _, take := range []takeAll{c.b.api.acquireAll, c.b.api.tryAcquireAll} {
				locks := c.several(take, c.openLocker().locker, names)
				var got []string
				for _, l := range locks {
					got = append(got, l.Name())
				}
				if !slices.Equal(got, want) {
					c.errorf("taken were %q, want %q", got, want)
				}
				c.expect(locks.Release(c.ctx), nil, "release")
			}
		}),
	newCase("Several/NoDeadlock", 10).needing(madeByLocker).proves(
		"Callers who take overlapping sets of names never wait for each other in a circle.",
		func(c *C) {
			x, y, z := c.name("x"), c.name("y"), c.name("z")
			sets := [][]string{{x, y, z}, {z, y, x}, {y, x}, {z, x}, {y, z}}
			together(len(sets), func(i int) {
				l := c.openLocker()
				for range 15 {
					ctx, cancel := context.WithTimeout(c.ctx, 4*soon)
					locks, err := c.b.api.acquireAll(ctx, l.locker, sets[i])
					cancel()
					c.must(err, "AcquireAll")
					c.expect(locks.Release(c.ctx), nil, "release")
				}
			})
		}),
	newCase("Several/Context", 3).needing(madeByLocker).proves(
		"The context of several locks ends with the first that ends, with its cause.",
		func(c *C) {
			l := c.openLocker().locker
			names := c.names(3)
			for i := range names {
				locks := c.several(c.b.api.acquireAll, l, names)
				ctx := c.b.api.contextOf(locks)
				c.expect(ctx.Err(), nil, "the context of locks that are held")
				c.release(locks[i])
				c.endsWith(ctx, locker.ErrReleased, "the release of one")
				c.expect(locks.Release(c.ctx), nil, "release")
			}
			locks := c.several(c.b.api.acquireAll, l, names, locker.WithLease(c.b.TTL))
			c.endsWith(c.b.api.contextOf(locks), locker.ErrLost, "the end of the leases")
		}),
}

type takeAll = func(context.Context, locker.Locker, []string, ...locker.AcquireOption) (locker.Locks, error)

// several takes several names that must be had.
func (c *C) several(take takeAll, l locker.Locker, names []string, opts ...locker.AcquireOption) locker.Locks {
	c.tb.Helper()
	return acquire(c, func(ctx context.Context, _ string, opts ...locker.AcquireOption) (locker.Locks, error) {
		return take(ctx, l, names, opts...)
	}, names[0], opts)
}

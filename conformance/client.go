package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/seed80cd6120/locker"
)

// client is one client of the store, as if it were a process of its own.
type client struct {
	Client
	c      *C
	link   Link
	locker locker.Locker // nil if it was not opened by openLocker
}

// acquirer is Acquire or TryAcquire.
type acquirer = func(ctx context.Context, name string, opts ...locker.AcquireOption) (Holding, error)

// ways returns both ways to acquire, by their names.
func (cl *client) ways() map[string]acquirer {
	return map[string]acquirer{"Acquire": cl.Acquire, "TryAcquire": cl.TryAcquire}
}

// onlyErr leaves out the lock of an acquisition that has to fail.
func onlyErr[T any](_ T, err error) error { return err }

// acquire takes a lock that must be had.
func (cl *client) acquire(name string, opts ...locker.AcquireOption) Holding {
	cl.c.tb.Helper()
	return acquire(cl.c, cl.Acquire, name, opts)
}

// lock takes a lock of package locker that must be had.
func (cl *client) lock(name string, opts ...locker.AcquireOption) *locker.Lock {
	cl.c.tb.Helper()
	return acquire(cl.c, cl.locker.Acquire, name, opts)
}

// acquire calls take, which must succeed. A lease may be over before it could be used, a short one where this machine is late
// and a longer one where a server is: then it is called again.
func acquire[H any](c *C, take func(context.Context, string, ...locker.AcquireOption) (H, error), name string, opts options) H {
	c.tb.Helper()
	for {
		begun := time.Now()
		h, err := take(c.ctx, name, opts...)
		early := c.late.Worst(begun) < shortLease/8 && time.Since(begun) < c.b.TTL/2
		if !errors.Is(err, locker.ErrLost) || early || c.ctx.Err() != nil {
			c.granted(err, name, begun)
			return h
		}
	}
}

// holder opens a client that holds the name of the case.
func (c *C) holder(opts ...locker.AcquireOption) Holding {
	c.tb.Helper()
	return c.open().acquire(c.x, opts...)
}

// waiter opens a client that queues for the name of the case.
func (c *C) waiter(opts ...locker.AcquireOption) *pending {
	c.tb.Helper()
	return c.open().queue(c.x, opts...)
}

// try is TryAcquire with the context of the case.
func (cl *client) try(name string, opts ...locker.AcquireOption) (Holding, error) {
	return cl.TryAcquire(cl.c.ctx, name, opts...)
}

// takes is TryAcquire of what must be had.
func (cl *client) takes(name string, opts ...locker.AcquireOption) Holding {
	cl.c.tb.Helper()
	h, err := cl.try(name, opts...)
	cl.c.must(err, "TryAcquire of %q, which can be had", name)
	return h
}

// taken fails the case unless name is taken.
func (cl *client) taken(name string, opts ...locker.AcquireOption) {
	cl.c.tb.Helper()
	h, err := cl.try(name, opts...)
	if err == nil {
		_ = h.Release(cl.c.ctx)
	}
	cl.c.expect(err, locker.ErrNotAcquired, "TryAcquire of %q, which is held", name)
}

// free fails the case unless name can be had within d, and leaves it free.
func (cl *client) free(name string, d time.Duration) {
	c := cl.c
	c.tb.Helper()
	ctx, cancel := context.WithTimeout(c.ctx, d)
	defer cancel()
	start := time.Now()
	h, err := cl.Acquire(ctx, name)
	switch {
	case err == nil:
		c.release(h)
	case c.noAnswer(err) && (time.Since(start) < min(d, c.long) || !c.mostlyOnTime(start)), errors.Is(err, locker.ErrLost) && c.late.Worst(c.begun) > c.lateFor(): // it was granted too late
		c.tooSlow()
	default:
		c.errorf("%q is not free after %v: %v", name, time.Since(start).Round(time.Millisecond), err)
	}
}

// close closes the client, which must succeed.
func (cl *client) close() {
	cl.c.tb.Helper()
	cl.c.expect(cl.Close(cl.c.ctx), nil, "close")
}

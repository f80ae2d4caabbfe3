package locker

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// Locks are several locks that were taken together, in the order of their names.
type Locks []*Lock

// AcquireAll takes several names, or none: it waits for one after the other, in the order
// of their bytes, each once however often it is named, so that callers who take
// overlapping sets never wait for each other in a circle. If a lock is lost before the
// last is there all go back, and the error is ErrLost. The options are those of each. AtLeast
// counts for names that were returned: those that go back are free at once.
func AcquireAll(ctx context.Context, l Locker, names []string, opts ...AcquireOption) (Locks, error) {
	return takeAll(ctx, l.Acquire, names, opts)
}

// TryAcquireAll takes several names if that needs no waiting, or none: then it returns
// ErrNotAcquired.
func TryAcquireAll(ctx context.Context, l Locker, names []string, opts ...AcquireOption) (Locks, error) {
	return takeAll(ctx, l.TryAcquire, names, opts)
}

func takeAll(ctx context.Context, take func(context.Context, string, ...AcquireOption) (*Lock, error), names []string, opts []AcquireOption) (Locks, error) {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	locks := make(Locks, 0, len(names))
	all := false
	defer func() {
		if all {
			return
		}
		for _, lock := range locks {
			lock.dropAtLeast()
		}
		switch {
		case ctx.Err() != nil:
			go func() { _ = locks.Release(ctx) }() // the caller does not wait any longer
		default:
			_ = locks.Release(ctx)
		}
	}()
	whole, end := context.WithCancelCause(ctx) // ends also when one of them is lost
	defer end(nil)
	for _, name := range names {
		lock, err := take(whole, name, opts...)
		if err != nil {
			if lost := locks.ended(); lost != nil && !errors.Is(err, ErrClosed) {
				if err = lost; ctx.Err() != nil {
					err = locks[0].lease.core.fail("acquire", name, ended(ctx, lost))
				}
			}
			return nil, err
		}
		locks = append(locks, lock)
		held := lock.Context()
		stop := context.AfterFunc(held, func() { end(context.Cause(held)) })
		defer stop()
	}
	if err := locks.ended(); err != nil {
		return nil, err
	}
	all = true
	return locks, nil
}

// ended returns the error of an acquisition of which a lock has ended; nil if none has.
func (ls Locks) ended() error {
	for _, lock := range ls {
		if lock.Context().Err() != nil {
			return lock.lease.core.fail("acquire", lock.Name(), context.Cause(lock.Context()))
		}
	}
	return nil
}

// dropAtLeast has the release of a lock that its caller never had free the name at once.
func (l *Lock) dropAtLeast() {
	if l.outer != nil { // the time of the outer lock
		return
	}
	l.lease.mu.Lock()
	l.lease.atLeast = 0
	l.lease.mu.Unlock()
}

// Release frees all locks. It returns the errors of those that could not be, see
// Lock.Release.
func (ls Locks) Release(ctx context.Context) error {
	errs := make([]error, len(ls))
	var wg sync.WaitGroup
	for i, lock := range ls {
		wg.Go(func() {
			if err := safely(func() error { return lock.Release(ctx) }); err != nil {
				errs[i] = lock.lease.core.fail("release", lock.Name(), err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Context returns a context that ends with the first of the locks that ends, with its cause.
// Like that of a Lock its Done and Err compare the clock. It carries the values of the
// context given to AcquireAll. Each call makes one, which lasts as long as the locks.
func (ls Locks) Context() context.Context {
	ctx := context.Background()
	if len(ls) > 0 {
		ctx = context.WithoutCancel(ls[0].caller)
	}
	for _, lock := range ls {
		ctx = lock.Within(ctx)
	}
	return ctx
}

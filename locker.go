// Package locker takes named locks across machines. The same small interface,
// with the same promises, stands on Redis, RedLock, ZooKeeper and etcd, and in
// memory; only the constructor differs:
//
//	l, err := redis.New(client)
//	lock, err := l.Acquire(ctx, "orders/42")
//	defer lock.Release(ctx)
//	store.Write(lock.Context(), lock.Token(), value)
//
// A lock that lives on other machines can be lost while it is held: the network
// fails, the process is paused, the server dies. Two things keep work correct
// then. The context of the lock ends, with cause ErrLost, before the server may
// give the lock to another; and the token of every holder is greater than those of
// all earlier ones, so that a store that remembers the greatest token it has seen
// can refuse a holder that is late.
package locker

import "context"

// Locker takes locks. All methods may be called from any number of goroutines.
//
// Every call returns within 100 ms of its context ending, and errors.Is then
// finds the context's error. An acquisition that returned an error has taken
// nothing: what it may have left on a server is removed in the background.
type Locker interface {
	// Acquire waits until the name is free and takes it. Goroutines of one Locker
	// get a name in the order in which they asked for it. A name that this Locker
	// already holds is waited for like any other.
	Acquire(ctx context.Context, name string, opts ...AcquireOption) (*Lock, error)

	// TryAcquire takes the name if it is free and returns ErrNotAcquired if not.
	TryAcquire(ctx context.Context, name string, opts ...AcquireOption) (*Lock, error)

	// Close releases every lock held, ends every waiting call with ErrClosed and
	// frees what the constructor opened, but not what it was given. If ctx ends
	// first the locks that could not be released stay until their TTL. Later
	// calls return nil.
	Close(ctx context.Context) error
}

// Do runs fn while holding name. The context that fn gets ends when ctx does and
// when the lock is lost. Do returns the error of fn, or of the acquisition, or
// else of the release: ErrLost if the lock was lost while fn ran, even if fn did
// not notice. The lock is also released when fn panics.
func Do(ctx context.Context, l Locker, name string, fn func(ctx context.Context, lock *Lock) error, opts ...AcquireOption) error {
	lock, err := l.Acquire(ctx, name, opts...)
	if err != nil {
		return err
	}
	released := false
	defer func() {
		if !released {
			_ = lock.Release(ctx)
		}
	}()
	within, end := lock.within(ctx)
	defer end()
	err = fn(within, lock)
	released = true
	if rerr := lock.Release(ctx); err == nil {
		err = rerr
	}
	return err
}

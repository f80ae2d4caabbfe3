// Package locker takes named locks across machines. The same small interface,
// with the same promises, stands on Redis, RedLock, etcd, ZooKeeper, PostgreSQL,
// MySQL, files and memory; only the constructor differs:
//
//	l, err := redis.New(client)
//	lock, err := l.Acquire(ctx, "orders/42")
//	defer lock.Release(ctx)
//	store.Write(lock.Context(), lock.Token(), value)
//
// A lock that lives on other machines can be lost while it is held: the network
// fails, the process is paused, the server dies. Two things keep work correct
// then. The context of the lock ends, with cause [ErrLost], before the server may
// give the lock to another; and of two holdings that cannot overlap the later has the
// greater token, so that a store that remembers tokens can refuse a holder that is
// late; see [Lock.Token].
//
// # Kinds of locks
//
// A lock is exclusive unless an option says otherwise. [Shared] locks exclude
// exclusive ones only; [Permits] lets so many hold the name at once as there are
// permits. All kinds stand in one queue for each name, in the order of arrival:
// a claim is granted when its weight and the weights of all claims ahead of it,
// holders included, are together no more than its limit.
//
//	kind              weight   limit
//	exclusive         all      all
//	shared            1        all
//	k of n permits    k        n
//
// Nothing overtakes, so neither readers nor writers starve.
package locker

import (
	"context"
	"errors"
)

// Locker takes locks. All methods may be called from any number of goroutines.
//
// Every call returns within 100 ms of its context ending, and errors.Is then
// finds the context's error. An acquisition that returned an error has taken
// nothing: what it may have left on a server is removed in the background.
//
// A Locker that wraps another has a method Unwrap() Locker, so that the functions
// of this package that need more than these methods find what is below.
type Locker interface {
	// Acquire waits until the name is free and takes it. Goroutines of one Locker
	// get a name in the order in which they asked for it. A name that this Locker
	// already holds is waited for like any other, unless ctx comes from the lock on
	// it: then waiting could only fail, and Acquire returns ErrHeld at once.
	Acquire(ctx context.Context, name string, opts ...AcquireOption) (*Lock, error)

	// TryAcquire takes the name if that needs no waiting, and returns ErrNotAcquired
	// if somebody holds it or waits for it.
	TryAcquire(ctx context.Context, name string, opts ...AcquireOption) (*Lock, error)

	// Close releases every lock held, ends every waiting call with ErrClosed and
	// frees what the constructor opened, but not what it was given. If ctx ends first, or
	// no server answers for five seconds and then for a TTL, or five more if that is longer,
	// the locks that could not be released stay until their TTL or lease. Later calls return
	// nil.
	Close(ctx context.Context) error
}

// Do runs fn while holding name. The context that fn gets ends when ctx does and
// when the lock is lost. Do returns the error of fn, or of the acquisition, or
// else of the release. If the lock was lost while fn ran errors.Is finds ErrLost
// beside the error of fn, even if fn did not notice. The lock is also released when
// fn panics.
func Do(ctx context.Context, l Locker, name string, fn func(ctx context.Context, lock *Lock) error, opts ...AcquireOption) error {
	lock, err := l.Acquire(ctx, name, opts...)
	if err != nil {
		return err
	}
	err, released := lock.use(ctx, fn)
	if err == nil {
		return released
	}
	if lost := lock.lost(); lost != nil && !errors.Is(err, ErrLost) {
		return errors.Join(err, lost)
	}
	return err
}

// use runs fn and releases l, also if fn panics. It returns the errors of both.
func (l *Lock) use(ctx context.Context, fn func(ctx context.Context, lock *Lock) error) (err, released error) {
	returned := false
	defer func() {
		if !returned {
			_ = l.Release(ctx)
		}
	}()
	within, end := l.within(ctx)
	defer end()
	err = fn(within, l)
	returned = true
	return err, l.Release(ctx)
}

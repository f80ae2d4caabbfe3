// Package lockcertmagic gives a storage of certmagic locks that do not depend on it: replicas that share certificates
// obtain each of them once, also if the storage has no locks, or such as do not hold.
//
//	storage := lockcertmagic.New(&certmagic.FileStorage{Path: "/mnt/certificates"}, l)
//	config := certmagic.New(cache, certmagic.Config{Storage: storage})
//
// A waiting replica is woken when the lock is free; certmagic's own file storage looks once a second. A replica that dies
// frees its locks within the TTL, and one that lives keeps them however long the authority takes.
//
// # Loss
//
// certmagic asks for the lease to be renewed before each try to obtain a certificate in the background. If the lock was lost
// it is then taken again, or the try fails if another has it. Unlock returns locker.ErrLost, which certmagic logs.
//
// # What it cannot do
//
// A try that is under way when the lock is lost goes on: certmagic does not hand a context back. Then two certificates may
// be obtained, of which one is kept. That costs a certificate, and certmagic expects it to happen now and then.
package lockcertmagic

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/seed80cd6120/locker"
)

// ErrNotLocked is what Unlock and RenewLockLease return for a name that is not locked.
var ErrNotLocked = errors.New("lockcertmagic: not locked")

// Storage is a storage whose locks have been replaced.
type Storage struct {
	certmagic.Storage

	l    locker.Locker
	opts []locker.AcquireOption

	mu   sync.Mutex
	held map[string][]*locker.Lock // in the order in which they were acquired; those ahead of the last were lost
}

var (
	_ certmagic.TryLocker        = (*Storage)(nil)
	_ certmagic.LockLeaseRenewer = (*Storage)(nil)
)

// New returns s with locks of l in place of its own.
func New(s certmagic.Storage, l locker.Locker, opts ...locker.AcquireOption) *Storage {
	return &Storage{Storage: s, l: l, opts: slices.Clone(opts), held: make(map[string][]*locker.Lock)}
}

// String returns what the storage says of itself, which certmagic logs; without it all exported fields would be logged,
// keys and passwords too.
func (s *Storage) String() string {
	if own, ok := s.Storage.(fmt.Stringer); ok {
		return own.String()
	}
	return fmt.Sprintf("%T", s.Storage)
}

// Lock waits until the name is free and takes it.
func (s *Storage) Lock(ctx context.Context, name string) error {
	lock, err := s.l.Acquire(ctx, name, s.opts...)
	if err != nil {
		return err
	}
	s.add(name, lock)
	return nil
}

// TryLock takes the name if that needs no waiting, and returns false if it is taken.
func (s *Storage) TryLock(ctx context.Context, name string) (bool, error) {
	lock, err := s.l.TryAcquire(ctx, name, s.opts...)
	if errors.Is(err, locker.ErrNotAcquired) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	s.add(name, lock)
	return true, nil
}

func (s *Storage) add(name string, lock *locker.Lock) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[name] = append(s.held[name], lock)
}

// Unlock releases the name, also if ctx has ended. It returns locker.ErrLost if another may have had it meanwhile.
//
// When a lock was lost the next call of Lock may come before the Unlock of the lost one. Which of the two an Unlock
// belongs to is not said, so the oldest lock is released first: a lock that somebody relies on is never freed early.
func (s *Storage) Unlock(ctx context.Context, name string) error {
	s.mu.Lock()
	locks := s.held[name]
	if len(locks) == 0 {
		s.mu.Unlock()
		return fmt.Errorf("%w: %s", ErrNotLocked, name)
	}
	s.held[name] = locks[1:]
	if len(locks) == 1 {
		delete(s.held, name)
	}
	s.mu.Unlock()
	return locks[0].Release(context.WithoutCancel(ctx))
}

// RenewLockLease returns nil if the name is held: its lock is renewed without being asked for, for any time. A lock that was
// lost it takes again, if that needs no waiting. It is not told who asks, and returns nil also to one whose lock was lost
// while another caller of the same Storage holds the name.
func (s *Storage) RenewLockLease(ctx context.Context, name string, _ time.Duration) error {
	s.mu.Lock()
	locks := s.held[name]
	if len(locks) == 0 {
		s.mu.Unlock()
		return fmt.Errorf("%w: %s", ErrNotLocked, name)
	}
	lost := locks[len(locks)-1]
	s.mu.Unlock()
	if lost.Context().Err() == nil {
		return nil
	}
	lock, err := s.l.TryAcquire(ctx, name, s.opts...)
	if err != nil {
		return err
	}
	s.mu.Lock()
	i := slices.Index(s.held[name], lost)
	if i >= 0 {
		s.held[name][i] = lock
	}
	s.mu.Unlock()
	if i < 0 { // unlocked meanwhile
		return errors.Join(ErrNotLocked, lock.Release(ctx))
	}
	return nil
}

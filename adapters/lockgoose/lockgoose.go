// Package lockgoose has the replicas of a service migrate their database with goose one after the other, on any database:
// goose itself locks in PostgreSQL and MySQL only.
//
//	provider, err := goose.NewProvider(goose.DialectSQLite3, db, migrations, goose.WithLocker(lockgoose.New(l, "schema")))
//	results, err := provider.Up(ctx)
//
// The replica that comes first migrates, the others wait until their ctx ends, and then find nothing to do. The name
// stands for the database: all that migrate it take the same.
//
// # What it cannot do
//
// goose gives the lock no say over the context of the migrations. If the lock is lost they go on; Up returns
// locker.ErrLost in the end. To have them stop leave WithLocker out, and call the provider under a lock:
//
//	err := locker.Do(ctx, l, "schema", func(ctx context.Context, _ *locker.Lock) error {
//		_, err := provider.Up(ctx)
//		return err
//	})
//
// Like goose's own lockers it does not hold for Status, GetVersions and HasPending, which only read.
package lockgoose

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"sync"

	"github.com/pressly/goose/v3/lock"

	"github.com/seed80cd6120/locker"
)

// ErrNotLocked is what Unlock returns when nothing is locked.
var ErrNotLocked = errors.New("lockgoose: not locked")

// Locker is a locker for goose.WithLocker. Any number of providers may have the same.
type Locker struct {
	l    locker.Locker
	name string
	opts []locker.AcquireOption

	mu   sync.Mutex
	held []*locker.Lock // in the order in which they were acquired; those ahead of the last were lost
}

var _ lock.Locker = (*Locker)(nil)

// New returns a Locker that takes name from l.
func New(l locker.Locker, name string, opts ...locker.AcquireOption) *Locker {
	return &Locker{l: l, name: name, opts: slices.Clone(opts)}
}

// Lock waits until the name is free and takes it. The database is not used.
func (l *Locker) Lock(ctx context.Context, _ *sql.DB) error {
	lock, err := l.l.Acquire(ctx, l.name, l.opts...)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = append(l.held, lock)
	return nil
}

// Unlock releases the lock, also if ctx has ended. It returns locker.ErrLost if another may have had the name meanwhile.
//
// When a lock was lost the next call of Lock may come before the Unlock of the lost one. Which of the two an Unlock
// belongs to is not said, so the oldest lock is released first: a lock that somebody relies on is never freed early.
func (l *Locker) Unlock(ctx context.Context, _ *sql.DB) error {
	l.mu.Lock()
	if len(l.held) == 0 {
		l.mu.Unlock()
		return ErrNotLocked
	}
	lock := l.held[0]
	l.held = l.held[1:]
	l.mu.Unlock()
	return lock.Release(context.WithoutCancel(ctx))
}

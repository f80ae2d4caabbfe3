// Package lockmigrate has the replicas of a service migrate their database with golang-migrate one after the other, on any
// database: some of its drivers lock within the process only, or with what a pooler or a cluster does not support.
//
//	driver, err := sqlite.WithInstance(db, &sqlite.Config{})
//	m, err := migrate.NewWithInstance("iofs", files, "sqlite", lockmigrate.New(driver, l, "schema", 14*time.Minute))
//	m.LockTimeout = 15 * time.Minute
//	err = m.Up()
//
// The replica that comes first migrates, the others wait, and then find nothing to do (migrate.ErrNoChange). The name
// stands for the database: all that migrate it take the same.
//
// # Loss
//
// If the lock is lost no further migration is begun and no version written, so the database stays as a migration that has
// failed leaves it: dirty, unless the loss came between two migrations.
//
// # What it cannot do
//
// A migration that is being run when the lock is lost is not interrupted, since golang-migrate knows no contexts. The
// constructors of drivers make the table of versions, most of them under the driver's own lock. Where that lock does not
// work the driver needs an option to do without, as MySQL's x-no-lock.
package lockmigrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/golang-migrate/migrate/v4/database"

	"github.com/seed80cd6120/locker"
)

// Driver is a database driver whose Lock and Unlock have been replaced.
type Driver struct {
	database.Driver

	l    locker.Locker
	name string
	wait time.Duration
	opts []locker.AcquireOption

	closing context.Context // ends when Close begins, and a Lock that waits with it
	close   context.CancelFunc

	mu   sync.Mutex // guards held, and is held during Lock
	held *locker.Lock

	busy sync.RWMutex // read-locked by what works on the database
}

// New returns d with a lock of l in place of its own. Lock waits for name for as long as wait, which should be a
// few seconds less than Migrate.LockTimeout (15 seconds unless set): after that golang-migrate does not look at the
// answer any more, and a lock that came later would be held until Close.
func New(d database.Driver, l locker.Locker, name string, wait time.Duration, opts ...locker.AcquireOption) *Driver {
	closing, stop := context.WithCancel(context.Background())
	return &Driver{Driver: d, l: l, name: name, wait: wait, opts: slices.Clone(opts), closing: closing, close: stop}
}

// Open opens url with the driver below, and locks as d does.
func (d *Driver) Open(url string) (database.Driver, error) {
	below, err := d.Driver.Open(url)
	if err != nil {
		return nil, err
	}
	return New(below, d.l, d.name, d.wait, d.opts...), nil
}

// Lock takes the name. It returns database.ErrLocked if d has it already, and wraps database.ErrLocked if it was not to be had
// in time.
func (d *Driver) Lock() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.held != nil {
		return database.ErrLocked
	}
	ctx, cancel := context.WithTimeout(d.closing, d.wait)
	defer cancel()
	lock, err := d.l.Acquire(ctx, d.name, d.opts...)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", database.ErrLocked, err)
	} else if err != nil {
		return err
	}
	d.held = lock
	return nil
}

// Unlock releases the name. It returns locker.ErrLost if another may have had it meanwhile, and the Migrate refuses to lock
// once more; make a new one.
func (d *Driver) Unlock() error {
	d.mu.Lock()
	lock := d.held
	d.held = nil
	d.mu.Unlock()
	if lock == nil {
		return database.ErrNotLocked
	}
	return lock.Release(context.Background())
}

// Close ends a Lock that waits, closes the driver below, and releases the name, if it is held. A migration that is being run is
// the last, and the name is released after it.
func (d *Driver) Close() error {
	d.close()
	closed := d.Driver.Close()
	d.busy.Lock()
	defer d.busy.Unlock()
	err := d.Unlock()
	if errors.Is(err, database.ErrNotLocked) {
		err = nil
	}
	return errors.Join(err, closed)
}

// check returns locker.ErrLost if the lock was lost, and locker.ErrClosed after Close.
func (d *Driver) check() error {
	if d.closing.Err() != nil {
		return locker.ErrClosed
	}
	d.mu.Lock()
	lock := d.held
	d.mu.Unlock()
	if lock == nil || lock.Context().Err() == nil {
		return nil
	}
	return context.Cause(lock.Context())
}

// Run runs a migration unless the lock was lost or d is closed.
func (d *Driver) Run(migration io.Reader) error {
	d.busy.RLock()
	defer d.busy.RUnlock()
	if err := d.check(); err != nil {
		return err
	}
	return d.Driver.Run(migration)
}

// SetVersion writes the version unless the lock was lost or d is closed.
func (d *Driver) SetVersion(version int, dirty bool) error {
	d.busy.RLock()
	defer d.busy.RUnlock()
	if err := d.check(); err != nil {
		return err
	}
	return d.Driver.SetVersion(version, dirty)
}

// Drop deletes everything unless the lock was lost or d is closed.
func (d *Driver) Drop() error {
	d.busy.RLock()
	defer d.busy.RUnlock()
	if err := d.check(); err != nil {
		return err
	}
	return d.Driver.Drop()
}

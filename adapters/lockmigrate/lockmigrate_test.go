package lockmigrate

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/database/sqlite"
	suite "github.com/golang-migrate/migrate/v4/database/testing"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"go.uber.org/goleak"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/adapters/internal/replica"
	"github.com/seed80cd6120/locker/memory"
)

// golang-migrate reads the next migration in advance, and leaves that goroutine behind when it stops at an error.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/golang-migrate/migrate/v4.(*Migration).Buffer"))
}

const wait = time.Minute

func openDatabase(t *testing.T, path string) database.Driver {
	t.Helper()
	d, err := new(sqlite.Sqlite).Open("sqlite://" + path)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// newMigrate returns a Migrate with two migrations, which closes d when the test ends.
func newMigrate(t *testing.T, d database.Driver) *migrate.Migrate {
	t.Helper()
	files, err := iofs.New(fstest.MapFS{
		"1_orders.up.sql": {Data: []byte("CREATE TABLE orders (id INTEGER PRIMARY KEY)")},
		"2_states.up.sql": {Data: []byte("ALTER TABLE orders ADD COLUMN state TEXT")},
	}, ".")
	if err != nil {
		t.Fatal(err)
	}
	m, err := migrate.NewWithInstance("iofs", files, "sqlite", d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = m.Close() })
	m.LockTimeout = 2 * wait
	return m
}

// watched calls before with every migration that is run.
type watched struct {
	database.Driver
	before func()
}

func (w watched) Run(migration io.Reader) error {
	w.before()
	return w.Driver.Run(migration)
}

// The suite that golang-migrate has for drivers.
func TestSuite(t *testing.T) {
	d := New(openDatabase(t, filepath.Join(t.TempDir(), "db")), replica.New(t, memory.NewStore()), "schema", wait)
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	suite.Test(t, d, []byte("CREATE TABLE orders (id INTEGER PRIMARY KEY)"))
}

// Of replicas that migrate one database at the same time one does the work, and the others find it done.
func TestReplicas(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	var migrated atomic.Int32
	runs := replica.Migrate(t, func(l locker.Locker, run func()) func() {
		m := newMigrate(t, New(watched{openDatabase(t, path), run}, l, "schema", wait))
		return func() {
			switch err := m.Up(); {
			case err == nil:
				migrated.Add(1)
			case !errors.Is(err, migrate.ErrNoChange):
				t.Error(err)
			}
		}
	})
	if runs != 2 || migrated.Load() != 1 {
		t.Errorf("%d migrations run, by %d replicas; want 2 by 1", runs, migrated.Load())
	}
}

// A replica that cannot have the lock in time says so, and neither holds it later nor waits for it.
func TestWaitEnds(t *testing.T) {
	a, b := replica.Two(t)
	lock, err := a.Acquire(t.Context(), "schema")
	if err != nil {
		t.Fatal(err)
	}
	d := New(openDatabase(t, filepath.Join(t.TempDir(), "db")), b, "schema", 10*time.Millisecond)
	m := newMigrate(t, d)
	if err := m.Up(); !errors.Is(err, database.ErrLocked) || !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if err := lock.Release(t.Context()); err != nil {
		t.Error(err)
	}
	d.wait = wait
	if err := m.Up(); err != nil {
		t.Errorf("once it is free: %v", err)
	}
}

// Close does not wait for a Lock that waits: it ends it.
func TestCloseEndsWait(t *testing.T) {
	a, b := replica.Two(t)
	lock, err := a.Acquire(t.Context(), "schema")
	if err != nil {
		t.Fatal(err)
	}
	d := New(openDatabase(t, filepath.Join(t.TempDir(), "db")), b, "schema", time.Hour)
	waited := make(chan error)
	go func() { waited <- d.Lock() }()
	for { // until it waits
		all, err := locker.Inspect(t.Context(), a, "schema")
		if err != nil {
			t.Fatal(err)
		}
		if len(all) == 2 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if err := <-waited; !errors.Is(err, context.Canceled) {
		t.Errorf("the wait ended with %v", err)
	}
	if err := lock.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// The name is released after a migration that is being run when the driver is closed, and none is begun then.
func TestCloseDuringMigration(t *testing.T) {
	a, b := replica.Two(t)
	runs, goOn := make(chan struct{}), make(chan struct{})
	d := New(watched{openDatabase(t, filepath.Join(t.TempDir(), "db")), func() {
		close(runs)
		<-goOn
	}}, a, "schema", wait)
	if err := d.Lock(); err != nil {
		t.Fatal(err)
	}
	ran, closed := make(chan struct{}), make(chan error)
	go func() {
		_ = d.Run(strings.NewReader("")) // the database may be closed by then
		close(ran)
	}()
	<-runs
	go func() { closed <- d.Close() }()
	select {
	case err := <-closed:
		t.Errorf("closed during a migration (%v)", err)
	case <-time.After(100 * time.Millisecond): // in which nothing may happen
	}
	if _, err := b.TryAcquire(t.Context(), "schema"); !errors.Is(err, locker.ErrNotAcquired) {
		t.Errorf("another may migrate: %v", err)
	}
	close(goOn)
	<-ran
	if err := <-closed; err != nil {
		t.Error(err)
	}
	for what, err := range map[string]error{"Run": d.Run(nil), "SetVersion": d.SetVersion(7, false), "Drop": d.Drop()} {
		if !errors.Is(err, locker.ErrClosed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	replica.Free(t, b, "schema")
}

// After a loss no migration is begun and no version written.
func TestLoss(t *testing.T) {
	l, cut := replica.CutOff(t, "schema")
	runs := 0
	m := newMigrate(t, New(watched{openDatabase(t, filepath.Join(t.TempDir(), "db")), func() { runs++; cut() }}, l, "schema", wait))
	if err := m.Up(); !errors.Is(err, locker.ErrLost) || runs != 1 {
		t.Errorf("%d migrations run: %v; want 1", runs, err)
	}
	if version, dirty, err := m.Version(); version != 1 || !dirty || err != nil {
		t.Errorf("version %d, dirty: %v (%v); want 1, dirty", version, dirty, err)
	}
}

// Whatever is done after a loss says so.
func TestAfterLoss(t *testing.T) {
	store := memory.NewStore()
	d := New(openDatabase(t, filepath.Join(t.TempDir(), "db")), replica.New(t, store), "schema", wait)
	defer func() { _ = d.Close() }()
	if err := d.Lock(); err != nil {
		t.Fatal(err)
	}
	store.Destroy("schema")
	lost := d.held.Context()
	<-lost.Done()
	for what, err := range map[string]error{"Run": d.Run(nil), "SetVersion": d.SetVersion(7, false), "Drop": d.Drop(), "Unlock": d.Unlock()} {
		if !errors.Is(err, locker.ErrLost) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Close frees the name, and Unlock says when there is nothing to unlock.
func TestClose(t *testing.T) {
	a, b := replica.Two(t)
	url := "sqlite://" + filepath.Join(t.TempDir(), "db")
	d, err := New(new(sqlite.Sqlite), a, "schema", wait).Open(url)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Unlock(); !errors.Is(err, database.ErrNotLocked) {
		t.Error(err)
	}
	if err := d.Lock(); err != nil {
		t.Fatal(err)
	}
	if err := d.Lock(); !errors.Is(err, database.ErrLocked) {
		t.Error(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	replica.Free(t, b, "schema")
}

// All of this is so with the newest release of golang-migrate, too.
func TestNewest(t *testing.T) { replica.Newest(t) }

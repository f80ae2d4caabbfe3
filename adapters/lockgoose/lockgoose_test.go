package lockgoose

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"github.com/pressly/goose/v3"
	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/adapters/internal/replica"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// provider returns one that has a table to make and a function to run, on a database in path.
func provider(t *testing.T, path string, fn func(ctx context.Context) error, opts ...goose.ProviderOption) *goose.Provider {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(60000)") // goose also reads without the lock
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	files := fstest.MapFS{"1_orders.sql": {Data: []byte("-- +goose Up\nCREATE TABLE orders (id INTEGER PRIMARY KEY);")}}
	run := goose.NewGoMigration(2, &goose.GoFunc{RunDB: func(ctx context.Context, _ *sql.DB) error { return fn(ctx) }}, nil)
	p, err := goose.NewProvider(goose.DialectSQLite3, db, files, append(opts, goose.WithGoMigrations(run))...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Of replicas that migrate one database at the same time one does the work, and all succeed.
func TestReplicas(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	var done atomic.Int32
	runs := replica.Migrate(t, func(l locker.Locker, run func()) func() {
		p := provider(t, path, func(context.Context) error { run(); return nil }, goose.WithLocker(New(l, "schema")))
		return func() {
			results, err := p.Up(t.Context())
			if err != nil {
				t.Error(err)
			}
			done.Add(int32(len(results)))
		}
	})
	if runs != 1 || done.Load() != 2 {
		t.Errorf("run %d times, %d migrations done; want 1 and 2", runs, done.Load())
	}
}

// A replica that waits gives up when its context ends.
func TestWaitEnds(t *testing.T) {
	a, b := replica.Two(t)
	lock, err := a.Acquire(t.Context(), "schema")
	if err != nil {
		t.Fatal(err)
	}
	p := provider(t, filepath.Join(t.TempDir(), "db"), func(context.Context) error { t.Error("run"); return nil }, goose.WithLocker(New(b, "schema")))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := p.Up(ctx)
		ended <- err
	}()
	eventually.Is(t, "it waits", func() bool {
		queue, err := locker.Inspect(t.Context(), a, "schema")
		return err == nil && len(queue) == 2
	})
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := lock.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// A migration that was cancelled has freed the name when Up returns.
func TestCancelled(t *testing.T) {
	a, b := replica.Two(t)
	ctx, cancel := context.WithCancel(t.Context())
	p := provider(t, filepath.Join(t.TempDir(), "db"), func(ctx context.Context) error {
		cancel()
		return ctx.Err()
	}, goose.WithLocker(New(a, "schema")))
	if _, err := p.Up(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	replica.Free(t, b, "schema")
}

// Unlock works with a context that has ended, and says when there is nothing to unlock.
func TestUnlock(t *testing.T) {
	a, b := replica.Two(t)
	l := New(a, "schema")
	ctx, cancel := context.WithCancel(t.Context())
	if err := l.Lock(ctx, nil); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := l.Unlock(ctx, nil); err != nil {
		t.Error(err)
	}
	replica.Free(t, b, "schema")
	if err := l.Unlock(ctx, nil); !errors.Is(err, ErrNotLocked) {
		t.Error(err)
	}
}

// Up says that the lock was lost; under locker.Do the migrations stop.
func TestLoss(t *testing.T) {
	l, cut := replica.CutOff(t, "schema")
	p := provider(t, filepath.Join(t.TempDir(), "db"), func(context.Context) error { cut(); return nil }, goose.WithLocker(New(l, "schema")))
	if _, err := p.Up(t.Context()); !errors.Is(err, locker.ErrLost) {
		t.Errorf("with WithLocker: %v", err)
	}

	l, cut = replica.CutOff(t, "schema")
	p = provider(t, filepath.Join(t.TempDir(), "db"), func(ctx context.Context) error { cut(); return ctx.Err() })
	err := locker.Do(t.Context(), l, "schema", func(ctx context.Context, _ *locker.Lock) error {
		_, err := p.Up(ctx)
		return err
	})
	if !errors.Is(err, context.Canceled) || !errors.Is(err, locker.ErrLost) {
		t.Errorf("under Do: %v", err)
	}
	if version, err := p.GetDBVersion(t.Context()); version != 1 {
		t.Errorf("under Do: version %d (%v), want 1", version, err)
	}
}

// The Unlock that belongs to a lost lock does not release the lock that came after it.
func TestUnlockAfterLoss(t *testing.T) {
	store := memory.NewStore()
	l, other := replica.New(t, store), replica.New(t, store)
	locks := New(l, "schema")
	if err := locks.Lock(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	store.Destroy("schema")
	if err := locks.Lock(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := locks.Unlock(t.Context(), nil); !errors.Is(err, locker.ErrLost) {
		t.Errorf("of the lost one: %v", err)
	}
	if _, err := other.TryAcquire(t.Context(), "schema"); !errors.Is(err, locker.ErrNotAcquired) {
		t.Errorf("the second does not hold: %v", err)
	}
	if err := locks.Unlock(t.Context(), nil); err != nil {
		t.Error(err)
	}
	replica.Free(t, other, "schema")
}

// All of this is so with the newest release of goose, too.
func TestNewest(t *testing.T) { replica.Newest(t) }

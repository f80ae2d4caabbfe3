package sqlrow

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"github.com/seed80cd6120/locker/recipes/internal/late"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "db")+"?_pragma=busy_timeout(60000)&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.Exec(Schema + `INSERT INTO orders (id, state) VALUES (42, 'new')`); err != nil {
		t.Fatal(err)
	}
	return db
}

func state(ctx context.Context, db *sql.DB) (s string, err error) {
	err = db.QueryRowContext(ctx, `SELECT state FROM orders WHERE id = 42`).Scan(&s)
	return s, err
}

func TestSetState(t *testing.T) {
	db := open(t)
	late.Test(t, func(ctx context.Context, token int64, value string) error {
		return SetState(ctx, db, token, 42, value)
	}, func(ctx context.Context) (string, error) { return state(ctx, db) }, ErrLate)

	if err := SetState(t.Context(), db, 1, 43, "paid"); !errors.Is(err, sql.ErrNoRows) {
		t.Errorf("no such row: %v", err)
	}
}

// inTransaction writes as a program does that changes several rows.
func inTransaction(ctx context.Context, db *sql.DB, token int64, value string, fenced func()) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := Fence(ctx, tx, "orders/42", token); err != nil {
		return err
	}
	fenced()
	if _, err := tx.ExecContext(ctx, `UPDATE orders SET state = $1 WHERE id = 42`, value); err != nil {
		return err
	}
	return tx.Commit()
}

func TestFence(t *testing.T) {
	db := open(t)
	late.Test(t, func(ctx context.Context, token int64, value string) error {
		return inTransaction(ctx, db, token, value, func() {})
	}, func(ctx context.Context) (string, error) { return state(ctx, db) }, ErrLate)
}

// A writer that is paused in the middle of its transaction holds up the next holder, and is not overwritten by halves.
func TestPausedInTransaction(t *testing.T) {
	db := open(t)
	lost, held := late.Holders(t)
	second := make(chan error, 1)
	err := inTransaction(t.Context(), db, lost.Token(), "first", func() {
		go func() { second <- inTransaction(t.Context(), db, held.Token(), "second", func() {}) }()
	})
	if err != nil {
		t.Error(err)
	}
	if err := <-second; err != nil {
		t.Error(err)
	}
	if s, err := state(t.Context(), db); s != "second" || err != nil {
		t.Errorf("%q, %v", s, err)
	}
}

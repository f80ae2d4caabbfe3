package sqlrow

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/internal/leaks"
	"github.com/seed80cd6120/locker/recipes/internal/database"
	"github.com/seed80cd6120/locker/recipes/internal/late"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// each runs fn with each kind of database, in which there is one order.
func each(t *testing.T, fn func(t *testing.T, db *sql.DB)) {
	database.Each(t, Schema+`INSERT INTO orders (id, state) VALUES (42, 'new')`, fn)
}

func state(ctx context.Context, db *sql.DB) (s string, err error) {
	err = db.QueryRowContext(ctx, `SELECT state FROM orders WHERE id = 42`).Scan(&s)
	return s, err
}

func TestSetState(t *testing.T) {
	each(t, func(t *testing.T, db *sql.DB) {
		late.Test(t, func(ctx context.Context, token int64, value string) error {
			return SetState(ctx, db, token, 42, value)
		}, func(ctx context.Context) (string, error) { return state(ctx, db) }, ErrLate)

		if err := SetState(t.Context(), db, 1, 43, "paid"); !errors.Is(err, sql.ErrNoRows) {
			t.Errorf("no such row: %v", err)
		}
	})
}

// pay is the statement in docs/using.md.
const pay = `
UPDATE orders SET state = 'paid', token = $1
WHERE id = 42 AND token <= $1`

// A holder writes as often as it likes; one that is late changes no row.
func TestPay(t *testing.T) {
	each(t, func(t *testing.T, db *sql.DB) {
		lost, held := late.Holders(t)
		for _, write := range []struct{ token, rows int64 }{{lost.Token(), 1}, {held.Token(), 1}, {lost.Token(), 0}, {held.Token(), 1}} {
			result, err := db.ExecContext(t.Context(), pay, write.token)
			if err != nil {
				t.Fatal(err)
			}
			if rows, err := result.RowsAffected(); rows != write.rows || err != nil {
				t.Errorf("token %d changed %d rows, want %d: %v", write.token, rows, write.rows, err)
			}
		}
	})
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
	each(t, func(t *testing.T, db *sql.DB) {
		late.Test(t, func(ctx context.Context, token int64, value string) error {
			return inTransaction(ctx, db, token, value, func() {})
		}, func(ctx context.Context) (string, error) { return state(ctx, db) }, ErrLate)
	})
}

// A writer that is paused in the middle of its transaction holds up the next holder, and does not overwrite it.
func TestPausedInTransaction(t *testing.T) {
	each(t, func(t *testing.T, db *sql.DB) {
		lost, held := late.Holders(t)
		second := make(chan error, 1)
		err := inTransaction(t.Context(), db, lost.Token(), "first", func() {
			go func() { second <- inTransaction(t.Context(), db, held.Token(), "second", func() {}) }()
			select {
			case err := <-second:
				second <- err
				t.Error("the next holder has written in between")
			case <-time.After(50 * time.Millisecond): // time enough for one that is not held up
			}
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
	})
}

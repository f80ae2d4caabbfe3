// Package store keeps the stock of the shop experiment in a real database, an SQLite file.
//
// The sale of one piece is a read and a write with time between them, as in programs
// that trust a lock: whoever sells reads the stock, thinks, and writes one less.
package store

import (
	"context"
	"database/sql"
	"fmt"

	_ "modernc.org/sqlite" // for sql.Open
)

// Store is an open shop.
type Store struct{ db *sql.DB }

// Open opens the shop of a file, which is made if it is not there.
func Open(file string) (*Store, error) {
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)&_pragma=busy_timeout(10000)")
	if err != nil {
		return nil, fmt.Errorf("open the shop: %w", err)
	}
	db.SetMaxOpenConns(1)
	return &Store{db}, nil
}

// Close closes the database.
func (s *Store) Close() error { return s.db.Close() }

// Version says what kind of database it is, and of what version.
func (s *Store) Version(ctx context.Context) (string, error) {
	var v string
	err := s.db.QueryRowContext(ctx, "SELECT sqlite_version()").Scan(&v)
	return "SQLite " + v, err
}

// Create makes the tables and fills the shelves.
func (s *Store) Create(ctx context.Context, items, stock int) error {
	_, err := s.db.ExecContext(ctx, `
		CREATE TABLE items (id INTEGER PRIMARY KEY, stock INTEGER NOT NULL, token INTEGER NOT NULL);
		CREATE TABLE sales (id INTEGER PRIMARY KEY, item INTEGER NOT NULL)`)
	for i := 0; err == nil && i < items; i++ {
		_, err = s.db.ExecContext(ctx, "INSERT INTO items (id, stock, token) VALUES (?, ?, 0)", i, stock)
	}
	if err != nil {
		return fmt.Errorf("fill the shop: %w", err)
	}
	return nil
}

// Stock returns how many pieces of an item are left.
func (s *Store) Stock(ctx context.Context, item int) (n int, err error) {
	err = s.db.QueryRowContext(ctx, "SELECT stock FROM items WHERE id = ?", item).Scan(&n)
	return n, err
}

// Sell writes the stock that is left and books one sale. With check, it is refused
// (sold is false) if the item has seen a greater token.
func (s *Store) Sell(ctx context.Context, item, left int, token int64, check bool) (sold bool, err error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer tx.Rollback()
	query, args := "UPDATE items SET stock = ? WHERE id = ?", []any{left, item}
	if check {
		query, args = "UPDATE items SET stock = ?, token = ? WHERE id = ? AND token <= ?", []any{left, token, item, token}
	}
	r, err := tx.ExecContext(ctx, query, args...)
	if err != nil {
		return false, err
	}
	if n, err := r.RowsAffected(); err != nil || n == 0 {
		return false, err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO sales (item) VALUES (?)", item); err != nil {
		return false, err
	}
	return true, tx.Commit()
}

// Seen notes a token before anything is read under it, so that an older one is refused
// from then on.
func (s *Store) Seen(ctx context.Context, item int, token int64) error {
	_, err := s.db.ExecContext(ctx, "UPDATE items SET token = ? WHERE id = ? AND token < ?", token, item, token)
	return err
}

// Sales returns how many sales were booked.
func (s *Store) Sales(ctx context.Context) (n int, err error) {
	err = s.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM sales").Scan(&n)
	return n, err
}

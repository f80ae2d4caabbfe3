// Package store keeps the stock of the shop experiment in a real database: SQLite by
// default, in a file; PostgreSQL or MySQL where their address is given.
//
// The sale of one piece is a read and a write with time between them, as in programs
// that trust a lock: whoever sells reads the stock, thinks, and writes one less.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"

	_ "github.com/go-sql-driver/mysql" // for mysql://
	_ "github.com/jackc/pgx/v5/stdlib" // for postgres://
	_ "modernc.org/sqlite"             // for files
)

// Store is an open database with the tables of one shop.
type Store struct {
	db     *sql.DB
	driver string
	items  string // name of the table
	sales  string
}

// Open opens a database: "postgres://...", "mysql://user:password@host:port/db", or the
// path of a file, which becomes an SQLite database. shop names the tables.
func Open(address, shop string) (*Store, error) {
	driver, dsn, err := source(address)
	if err != nil {
		return nil, err
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return nil, fmt.Errorf("open the shop's database: %w", err)
	}
	db.SetMaxIdleConns(16) // each buyer keeps its connection
	if driver == "sqlite" {
		db.SetMaxOpenConns(1)
	}
	return &Store{db: db, driver: driver, items: "locker_items_" + shop, sales: "locker_sales_" + shop}, nil
}

// source returns the name of the driver and what it wants to be told.
func source(address string) (driver, dsn string, err error) {
	switch {
	case strings.HasPrefix(address, "postgres://"), strings.HasPrefix(address, "postgresql://"):
		return "pgx", address, nil
	case strings.HasPrefix(address, "mysql://"):
		u, err := url.Parse(address)
		if err != nil {
			return "", "", fmt.Errorf("the shop's database: %w", err)
		}
		user := u.User.Username()
		if p, ok := u.User.Password(); ok {
			user += ":" + p
		}
		return "mysql", fmt.Sprintf("%s@tcp(%s)%s?clientFoundRows=true", user, u.Host, u.Path), nil
	case strings.Contains(address, "://"):
		return "", "", fmt.Errorf("the shop's database: %q is neither postgres:// nor mysql:// nor a file", address)
	}
	return "sqlite", "file:" + address + "?_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)&_pragma=busy_timeout(10000)", nil
}

// Version says what kind of database it is, and of what version.
func (s *Store) Version(ctx context.Context) (string, error) {
	name := map[string]string{"pgx": "PostgreSQL", "mysql": "MySQL", "sqlite": "SQLite"}[s.driver]
	query := map[string]string{"pgx": "SHOW server_version", "mysql": "SELECT VERSION()", "sqlite": "SELECT sqlite_version()"}[s.driver]
	var v string
	if err := s.db.QueryRowContext(ctx, query).Scan(&v); err != nil {
		return name, fmt.Errorf("ask the shop's database for its version: %w", err)
	}
	return name + " " + v, nil
}

// Create makes the tables and fills the shelves.
func (s *Store) Create(ctx context.Context, items, stock int) error {
	id := map[string]string{"pgx": "BIGSERIAL", "mysql": "BIGINT AUTO_INCREMENT", "sqlite": "INTEGER"}[s.driver]
	for _, q := range []string{
		"CREATE TABLE " + s.items + " (id BIGINT PRIMARY KEY, stock BIGINT NOT NULL, token BIGINT NOT NULL)",
		"CREATE TABLE " + s.sales + " (id " + id + " PRIMARY KEY, item BIGINT NOT NULL)",
	} {
		if _, err := s.db.ExecContext(ctx, q); err != nil {
			return fmt.Errorf("make the shop's tables: %w", err)
		}
	}
	for i := range items {
		if _, err := s.db.ExecContext(ctx, s.bind("INSERT INTO "+s.items+" (id, stock, token) VALUES (?, ?, 0)"), i, stock); err != nil {
			return fmt.Errorf("fill the shop: %w", err)
		}
	}
	return nil
}

// Drop removes the tables.
func (s *Store) Drop(ctx context.Context) error {
	_, err := s.db.ExecContext(ctx, "DROP TABLE "+s.items)
	_, err2 := s.db.ExecContext(ctx, "DROP TABLE "+s.sales)
	return errors.Join(err, err2)
}

// Close closes the database.
func (s *Store) Close() error { return s.db.Close() }

// bind writes the placeholders as the driver wants them.
func (s *Store) bind(query string) string {
	if s.driver != "pgx" {
		return query
	}
	for n := 1; strings.Contains(query, "?"); n++ {
		query = strings.Replace(query, "?", fmt.Sprintf("$%d", n), 1)
	}
	return query
}

// Stock returns how many pieces of an item are left.
func (s *Store) Stock(ctx context.Context, item int) (n int, err error) {
	err = s.db.QueryRowContext(ctx, s.bind("SELECT stock FROM "+s.items+" WHERE id = ?"), item).Scan(&n)
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
	query, args := "UPDATE "+s.items+" SET stock = ? WHERE id = ?", []any{left, item}
	if check {
		query, args = "UPDATE "+s.items+" SET stock = ?, token = ? WHERE id = ? AND token <= ?", []any{left, token, item, token}
	}
	r, err := tx.ExecContext(ctx, s.bind(query), args...)
	if err != nil {
		return false, err
	}
	if check {
		if n, err := r.RowsAffected(); err != nil || n == 0 {
			return false, err
		}
	}
	if _, err := tx.ExecContext(ctx, s.bind("INSERT INTO "+s.sales+" (item) VALUES (?)"), item); err != nil {
		return false, err
	}
	return true, tx.Commit()
}

// Seen notes a token before anything is read under it, so that an older one is refused
// from then on.
func (s *Store) Seen(ctx context.Context, item int, token int64) error {
	_, err := s.db.ExecContext(ctx, s.bind("UPDATE "+s.items+" SET token = ? WHERE id = ? AND token < ?"), token, item, token)
	return err
}

// Sales returns how many sales were booked.
func (s *Store) Sales(ctx context.Context) (n int, err error) {
	err = s.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+s.sales).Scan(&n)
	return n, err
}

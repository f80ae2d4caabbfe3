package mysql

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/faults"
	"github.com/seed80cd6120/locker/internal/proxy"
	"github.com/seed80cd6120/locker/internal/servers"
)

func TestMain(m *testing.M) {
	faults.Child()
	_ = mysql.SetLogger(&mysql.NopLogger{}) // it reports each connection that a test breaks
	servers.Main(m)
}

// slack is what a machine that does other things too may add to a time.
const slack = 5 * time.Second

func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// newPool makes a pool as most users have it.
func newPool(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// openDSN makes a Locker, and a pool, that are closed when the test ends.
func openDSN(t testing.TB, dsn string, opts ...locker.Option) locker.Locker {
	t.Helper()
	return openOn(t, newPool(t, dsn), opts...)
}

func openOn(t testing.TB, db *sql.DB, opts ...locker.Option) locker.Locker {
	t.Helper()
	l, err := New(db, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close(within(t, slack)) })
	return l
}

func acquire(t testing.TB, l locker.Locker, name string, opts ...locker.AcquireOption) *locker.Lock {
	t.Helper()
	lock, err := l.Acquire(within(t, 30*time.Second), name, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

func release(t testing.TB, lock *locker.Lock) {
	t.Helper()
	if err := lock.Release(within(t, 30*time.Second)); err != nil {
		t.Fatal(err)
	}
}

// front puts a proxy before a server, and returns what a client connects with.
func front(t testing.TB, server *servers.MariaDB) (*proxy.Proxy, string) {
	t.Helper()
	p, err := proxy.New(server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p, strings.Replace(server.DSN(), server.Addr(), p.Addr(), 1)
}

// ask runs a query that answers one value.
func ask[T any](t testing.TB, db *sql.DB, query string, args ...any) (v T) {
	t.Helper()
	if err := db.QueryRowContext(within(t, slack), query, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

package mysql

import (
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/faults"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/proxy"
	"github.com/seed80cd6120/locker/internal/servers"
)

func TestMain(m *testing.M) {
	faults.Child()
	_ = mysql.SetLogger(&mysql.NopLogger{}) // it reports each connection that a test breaks
	servers.Main(m)
}

// patience is how long a call may take on a machine that does other things too.
const patience = 30 * time.Second

// promptly is how long a grant may take of which a waiter is told. A look of its own comes twenty seconds after the last.
const promptly = 10 * time.Second

var (
	must    = locktest.Must
	within  = locktest.Within
	acquire = locktest.Acquire
	release = locktest.Release
)

// newPool makes a pool as most users have it.
func newPool(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	must(t, err)
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
	must(t, err)
	locktest.CloseAfter(t, l.Close)
	return l
}

// front puts a proxy before a server, and returns what a client connects with.
func front(t testing.TB, server *servers.MariaDB) (*proxy.Proxy, string) {
	t.Helper()
	p := locktest.Front(t, server.Addr())
	return p, strings.Replace(server.DSN(), server.Addr(), p.Addr(), 1)
}

// ask runs a query that answers one value.
func ask[T any](t testing.TB, db *sql.DB, query string, args ...any) (v T) {
	t.Helper()
	if err := db.QueryRowContext(within(t, patience), query, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

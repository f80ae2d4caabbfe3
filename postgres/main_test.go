package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/faults"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/proxy"
	"github.com/seed80cd6120/locker/internal/servers"
)

func TestMain(m *testing.M) {
	faults.Child()
	servers.Main(m)
}

// patience is how long a call may take on a machine that does other things too.
const patience = 30 * time.Second

var (
	must    = locktest.Must
	within  = locktest.Within
	acquire = locktest.Acquire
	release = locktest.Release
)

// newPool makes a pool as most users have it. Changes may be made to its configuration.
func newPool(t testing.TB, url string, changes ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	must(t, err)
	for _, change := range changes {
		change(config)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	must(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// openURL makes a Locker, and a pool, that are closed when the test ends.
func openURL(t testing.TB, url string, opts ...locker.Option) locker.Locker {
	t.Helper()
	return openOn(t, newPool(t, url), opts...)
}

func openOn(t testing.TB, pool *pgxpool.Pool, opts ...locker.Option) locker.Locker {
	t.Helper()
	l, err := New(pool, opts...)
	must(t, err)
	locktest.CloseAfter(t, l.Close)
	return l
}

// front puts a proxy before a server, and returns what a client connects with.
func front(t testing.TB, addr string) (*proxy.Proxy, string) {
	t.Helper()
	p := locktest.Front(t, addr)
	return p, "postgres://postgres@" + p.Addr() + "/postgres?sslmode=disable"
}

// ask runs a query that answers one value.
func ask[T any](t testing.TB, pool *pgxpool.Pool, query string, args ...any) (v T) {
	t.Helper()
	if err := pool.QueryRow(within(t, patience), query, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

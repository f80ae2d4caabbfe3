package postgres

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/servers"
)

func TestOpen(t *testing.T) {
	t.Parallel()
	server := servers.NewPostgres(t, servers.PostgresOptions{Password: "s&cr@t"})
	nobody := servers.NewPostgres(t, servers.PostgresOptions{})
	if err := nobody.Stop(); err != nil {
		t.Fatal(err)
	}
	url := "://postgres:s&cr%40t@" + nobody.Addr() + "," + server.Addr()
	for _, one := range []string{"postgres" + url, "postgresql" + url + "/postgres?schema=other&durable=true&ttl=5s"} {
		l, err := locker.Open(t.Context(), one)
		if err != nil {
			t.Fatal(err)
		}
		release(t, acquire(t, l, "x"))
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	admin := newPool(t, strings.Replace(server.URL(), "s&cr@t", "s&cr%40t", 1))
	if n := ask[int](t, admin, "select count(*) from pg_tables where schemaname in ('locker', 'other') and tablename = 'claim'"); n != 2 {
		t.Errorf("%d of two schemas are there", n)
	}
	for _, bad := range []string{"postgres://a?schema=", "postgres://a?durable=s3cret", "postgres://a?sslmode=disable", "postgres://s3cret@a", "postgress://a?tls-ca=/s3cret"} {
		if _, err := locker.Open(t.Context(), bad); !errors.Is(err, locker.ErrInvalidOption) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	// TLS is asked for, and not left out where the server has none.
	l, err := locker.Open(t.Context(), "postgress"+url)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close(t.Context())
	if _, err := l.TryAcquire(within(t, patience), "x"); err == nil {
		t.Error("a server without TLS was taken")
	}
}

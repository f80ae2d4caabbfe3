package postgres

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/eventually"
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
	for _, bad := range []string{"postgres://a?schema=", "postgres://a?durable=s3cret", "postgres://a?sslmode=disable", "postgres://s3cret@a", "postgress://a?tls-ca=/s3cret", "postgres://a?schema=" + strings.Repeat("s3cret", 11)} {
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

// Where a Locker cannot connect it shows no user and no password. The client library's errors are in the chain.
func TestConnectShowsNoUser(t *testing.T) {
	t.Parallel()
	server := servers.NewPostgres(t, servers.PostgresOptions{Password: "right"})
	admin := newPool(t, server.URL())
	if _, err := admin.Exec(within(t, patience), "create role s3cret login password 's3cret' connection limit 0"); err != nil {
		t.Fatal(err)
	}
	listen, err := pgx.ParseConfig(strings.Replace(server.URL(), "postgres:right@", "s3cret:s3cret-wrong@", 1))
	if err != nil {
		t.Fatal(err)
	}
	held := acquire(t, openURL(t, server.URL(), locker.WithTTL(time.Minute)), "x")
	for url, want := range map[string]string{ // the code that the server answers
		"postgres://s3cret:s3cret@127.0.0.1:1/db":                   "",
		"postgres://s3cret:s3cret-wrong@" + server.Addr() + "/db":   "28P01",
		"postgres://s3cret:s3cret@" + server.Addr() + "/postgres":   "53300",
		"postgres://postgres:right@" + server.Addr() + "/postgres?": "28P01", // by the connection that listens
	} {
		var log eventually.Output
		l, err := locker.Open(t.Context(), url, locker.WithLogger(slog.New(slog.NewTextHandler(&log, nil))), WithListen(listen))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(url, "?") {
			_, err = l.Acquire(within(t, patience), "x")
		} else {
			_, err = l.TryAcquire(within(t, patience), "x")
		}
		var client *pgconn.ConnectError
		if refused := errors.Is(err, driver.ErrRefused); !errors.As(err, &client) || code(err) != want || refused != (want == "28P01") {
			t.Errorf("%s: refused %v: %v", url, refused, err)
		}
		if text := fmt.Sprintf("%v %+v %#v %v %s", err, err, err, l.Close(within(t, patience)), log.String()); strings.Contains(text, "s3cret") {
			t.Errorf("%s: %s", url, text)
		}
	}
	release(t, held)
}

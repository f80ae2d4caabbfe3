package mysql

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/servers"
)

func TestOpen(t *testing.T) {
	t.Parallel()
	server := servers.NewMariaDB(t, servers.MariaDBOptions{Password: "s&cr@t/"})
	host, port, _ := net.SplitHostPort(server.Addr())
	url := "mysql://root:s&cr%40t%2F@" + net.JoinHostPort(host, port)
	for _, rest := range []string{"", "/app", "/app?schema=other"} {
		l, err := locker.Open(t.Context(), url+rest)
		must(t, err)
		release(t, acquire(t, l, "x"))
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if n := ask[int](t, newPool(t, server.DSN()), "select count(*) from information_schema.schemata where schema_name in ('locker', 'other')"); n != 2 {
		t.Errorf("%d of two schemas are there", n)
	}
	for _, bad := range []string{"mysql://a,b", "mysql://a?schema=", "mysql://a?prefix=x", "mysql://s3cret@a", "mysqls://a?tls-ca=/s3cret", "mysql://a?schema=" + strings.Repeat("s3cret", 11)} {
		if _, err := locker.Open(t.Context(), bad); !errors.Is(err, locker.ErrInvalidOption) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	// TLS is asked for, and not left out where the server has none.
	l, err := locker.Open(t.Context(), strings.Replace(url, "mysql:", "mysqls:", 1))
	must(t, err)
	defer l.Close(t.Context())
	if _, err := l.TryAcquire(within(t, patience), "x"); err == nil {
		t.Error("a server without TLS was taken")
	}
}

// Where a Locker is let in nowhere it shows no user and no password. The client library's errors are in the chain.
func TestLoginShowsNoUser(t *testing.T) {
	t.Parallel()
	server := servers.NewMariaDB(t, servers.MariaDBOptions{})
	do(t, newPool(t, server.DSN()), "create user s3cret@'127.0.0.1' identified by 's3cret'")
	for url, want := range map[string]uint16{ // the number that the server answers
		"mysql://s3cret:s3cret@127.0.0.1:1/db":                0,
		"mysql://s3cret:s3cret-wrong@" + server.Addr():        1045,
		"mysql://s3cret:s3cret@" + server.Addr() + "/app":     1044,
		"mysql://s3cret:s3cret@" + server.Addr() + "/?ttl=1m": 1370, // to use the schema
	} {
		var log eventually.Output
		l, err := locker.Open(t.Context(), url, locker.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		must(t, err)
		_, err = l.TryAcquire(within(t, patience), "x")
		var answer *mysql.MySQLError
		if refused := errors.Is(err, driver.ErrRefused); err == nil || code(err) != want || errors.As(err, &answer) != (want != 0) || refused != (want != 0) {
			t.Errorf("%s: refused %v: %v", url, refused, err)
		}
		if text := fmt.Sprintf("%v %+v %#v %v %s", err, err, err, l.Close(within(t, patience)), log.String()); strings.Contains(text, "s3cret") {
			t.Errorf("%s: %s", url, text)
		}
	}
}

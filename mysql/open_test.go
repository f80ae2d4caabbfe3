package mysql

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/servers"
)

func TestOpen(t *testing.T) {
	t.Parallel()
	server := servers.NewMariaDB(t, servers.MariaDBOptions{Password: "s&cr@t/"})
	host, port, _ := net.SplitHostPort(server.Addr())
	url := "mysql://root:s&cr%40t%2F@" + net.JoinHostPort(host, port)
	for _, rest := range []string{"", "/app", "/app?schema=other"} {
		l, err := locker.Open(t.Context(), url+rest)
		if err != nil {
			t.Fatal(err)
		}
		release(t, acquire(t, l, "x"))
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if n := ask[int](t, newPool(t, server.DSN()), "select count(*) from information_schema.schemata where schema_name in ('locker', 'other')"); n != 2 {
		t.Errorf("%d of two schemas are there", n)
	}
	for _, bad := range []string{"mysql://a,b", "mysql://a?schema=", "mysql://a?prefix=x", "mysql://s3cret@a", "mysqls://a?tls-ca=/s3cret"} {
		if _, err := locker.Open(t.Context(), bad); !errors.Is(err, locker.ErrInvalidOption) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	// TLS is asked for, and not left out where the server has none.
	l, err := locker.Open(t.Context(), strings.Replace(url, "mysql:", "mysqls:", 1))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close(t.Context())
	if _, err := l.TryAcquire(within(t, patience), "x"); err == nil {
		t.Error("a server without TLS was taken")
	}
}

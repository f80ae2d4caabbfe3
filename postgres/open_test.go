package postgres

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/openurl"
	"github.com/seed80cd6120/locker/internal/servers"
)

func TestOpen(t *testing.T) {
	t.Parallel()
	server := servers.NewPostgres(t, servers.PostgresOptions{Password: "s&cr@t"})
	nobody := servers.NewPostgres(t, servers.PostgresOptions{})
	must(t, nobody.Stop())
	url := "://postgres:s&cr%40t@" + nobody.Addr() + "," + server.Addr()
	for _, one := range []string{"postgres" + url, "postgresql" + url + "/postgres?schema=other&durable=true&ttl=5s"} {
		l, err := locker.Open(t.Context(), one)
		must(t, err)
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
	must(t, err)
	defer l.Close(t.Context())
	if _, err := l.TryAcquire(within(t, patience), "x"); err == nil {
		t.Error("a server without TLS was taken")
	}
}

// configured returns the configuration that open makes of a URL.
func configured(t *testing.T, url string) *pgconn.Config {
	t.Helper()
	u, err := locker.ParseURL(url)
	must(t, err)
	s, err := openurl.Read(u, "5432", u.Scheme == "postgress")
	must(t, err)
	config, err := configure(s)
	must(t, err)
	return &config.ConnConfig.Config
}

// Hosts and ports are those of the URL, in its order.
func TestOpenHosts(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"postgres://":      "localhost:5432",
		"postgres://a:1,b": "a:1 b:5432",
		"postgres://[::1]:5432,[fd00::2]:5433/app": "[::1]:5432 [fd00::2]:5433",
		"postgres://a,[::1]":                       "a:5432 [::1]:5432",
		"postgress://[::1],b":                      "[::1]:5432 b:5432",
	} {
		l, err := locker.Open(t.Context(), url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
		c := configured(t, url)
		var hosts []string
		for _, one := range append([]*pgconn.FallbackConfig{{Host: c.Host, Port: c.Port, TLSConfig: c.TLSConfig}}, c.Fallbacks...) {
			hosts = append(hosts, net.JoinHostPort(one.Host, strconv.Itoa(int(one.Port))))
			if secure := strings.HasPrefix(url, "postgress:"); secure != (one.TLSConfig != (*tls.Config)(nil)) || secure && one.TLSConfig.ServerName != one.Host {
				t.Errorf("%s: TLS to %s: %+v", url, one.Host, one.TLSConfig)
			}
		}
		if !slices.Equal(hosts, strings.Fields(want)) {
			t.Errorf("%s: %q", url, hosts)
		}
	}
}

// The environment changes nothing.
func TestOpenReadsNoEnvironment(t *testing.T) {
	server := servers.NewPostgres(t, servers.PostgresOptions{Password: "right"})
	services := filepath.Join(t.TempDir(), "services")
	must(t, os.WriteFile(services, []byte("[there]\nuser=nosuch\ndbname=nosuch\nsearch_path=nosuch\npool_max_conns=x\n"), 0o600))
	for variable, value := range map[string]string{
		"PGHOST": "nosuch.invalid", "PGPORT": "x", "PGDATABASE": "nosuch", "PGUSER": "nosuch", "PGPASSWORD": "wrong", "PGPASSFILE": services,
		"PGOPTIONS": "-c default_transaction_isolation=serializable", "PGAPPNAME": "nosuch", "PGTZ": "nosuch", "PGCONNECT_TIMEOUT": "x",
		"PGTARGETSESSIONATTRS": "read-only", "PGSSLMODE": "verify-full", "PGSSLROOTCERT": "/nosuch", "PGSSLCERT": "/nosuch", "PGSSLKEY": "/nosuch",
		"PGSSLNEGOTIATION": "direct", "PGSERVICEFILE": services, "PGSSLCERTMODE": "require", "PGMINPROTOCOLVERSION": "x",
		"PGMAXPROTOCOLVERSION": "x", "PGCHANNELBINDING": "require", "PGREQUIREAUTH": "none",
	} {
		t.Setenv(variable, value)
	}
	for _, service := range []string{"", "nosuch", "there"} {
		t.Setenv("PGSERVICE", service)
		url := "postgres://postgres:right@" + server.Addr()
		l, err := locker.Open(t.Context(), url)
		if err != nil {
			t.Errorf("service %q: %v", service, err)
			continue
		}
		if lock, err := l.TryAcquire(within(t, patience), "x"); err != nil {
			t.Errorf("service %q: %v", service, err)
		} else {
			release(t, lock)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
		me, err := user.Current()
		must(t, err)
		for url, want := range map[string][3]string{
			"postgres://":                {me.Username, "", ""},
			"postgres:///app":            {me.Username, "", "app"},
			"postgres://ann:p4ss@db":     {"ann", "p4ss", ""},
			"postgres://ann:p4ss@db/app": {"ann", "p4ss", "app"},
		} {
			c := configured(t, url)
			if got := [3]string{c.User, c.Password, c.Database}; got != want || len(c.RuntimeParams) > 0 || c.ConnectTimeout != 0 || c.TLSConfig != nil || c.Port != 5432 {
				t.Errorf("service %q: %s: %+v", service, url, c)
			}
		}
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
	must(t, err)
	held := acquire(t, openURL(t, server.URL(), locker.WithTTL(time.Minute)), "x")
	for url, want := range map[string]string{ // the code that the server answers
		"postgres://s3cret:s3cret@127.0.0.1:1/db":                   "",
		"postgres://s3cret:s3cret-wrong@" + server.Addr() + "/db":   "28P01",
		"postgres://s3cret:s3cret@" + server.Addr() + "/postgres":   "53300",
		"postgres://postgres:right@" + server.Addr() + "/postgres?": "28P01", // by the connection that listens
	} {
		var log eventually.Output
		l, err := locker.Open(t.Context(), url, locker.WithLogger(slog.New(slog.NewTextHandler(&log, nil))), WithListen(listen))
		must(t, err)
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

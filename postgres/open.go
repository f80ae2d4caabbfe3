package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"os/user"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/openurl"
)

func init() {
	openurl.Register("postgres", "postgress", "5432", open, "schema", "durable")
	openurl.Register("postgresql", "postgresqls", "5432", open, "schema", "durable")
}

// open opens postgres://user:password@host:port/database. Of several hosts the first that takes writes is used.
func open(_ context.Context, s *openurl.Server, opts ...locker.Option) (locker.Locker, error) {
	config, err := configure(s)
	if err != nil {
		return nil, err
	}
	if schema, ok := s.Params["schema"]; ok {
		opts = append(opts, WithSchema(schema))
	}
	switch s.Params["durable"] {
	case "true":
		opts = append(opts, Durable())
	case "", "false":
	default:
		return nil, errors.New("parameter durable: want true or false")
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, errors.New("not what the client library takes")
	}
	l, err := New(pool, append(opts, locker.WithOnClose(func() error { pool.Close(); return nil }))...)
	if err != nil {
		pool.Close()
	}
	return l, err
}

// plain is all that the environment could set and that is not set below. For a socket, as host, the client library reads no
// certificates.
const plain = "host=/ port=5432 user=none connect_timeout=0 sslmode=disable sslnegotiation=postgres target_session_attrs=read-write " +
	"sslcertmode=allow min_protocol_version=3.0 max_protocol_version=3.0 channel_binding=prefer require_auth=''"

// configure returns the configuration that the URL describes, whatever the environment says.
func configure(s *openurl.Server) (*pgxpool.Config, error) {
	settings := plain
	if os.Getenv("PGSERVICE") != "" { // the client library fails without a service of that name: it is given an empty one
		file, err := os.CreateTemp("", "locker")
		if err != nil {
			return nil, err
		}
		defer os.Remove(file.Name())
		_, err = file.WriteString("[empty]\n")
		if err := errors.Join(err, file.Close()); err != nil {
			return nil, err
		}
		settings += " service=empty servicefile='" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(file.Name()) + "'"
	}
	config, err := pgxpool.ParseConfig(settings)
	if err != nil {
		return nil, err
	}
	conn := config.ConnConfig
	clear(conn.RuntimeParams)
	conn.User, conn.Password, conn.Database = s.User, s.Password, strings.TrimPrefix(s.Path, "/")
	if conn.User == "" {
		system, err := user.Current()
		if err != nil {
			return nil, errors.New("no user, and the operating system names none")
		}
		conn.User = system.Username[strings.LastIndex(system.Username, `\`)+1:] // on Windows a domain may stand before
	}
	hosts := make([]*pgconn.FallbackConfig, len(s.Addresses))
	for i, address := range s.Addresses {
		host, text, _ := net.SplitHostPort(address)
		port, _ := strconv.ParseUint(text, 10, 16)
		hosts[i] = &pgconn.FallbackConfig{Host: host, Port: uint16(port), TLSConfig: named(s.TLS, host)}
	}
	conn.Host, conn.Port, conn.TLSConfig, conn.Fallbacks = hosts[0].Host, hosts[0].Port, hosts[0].TLSConfig, hosts[1:]
	return config, nil
}

// named returns config, if any, for a server that has to show a certificate for host, unless config names another.
func named(config *tls.Config, host string) *tls.Config {
	config = config.Clone()
	if config != nil && config.ServerName == "" {
		config.ServerName = host
	}
	return config
}

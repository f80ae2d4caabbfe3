package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"strings"

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
	config, err := pgxpool.ParseConfig("postgres://" + strings.Join(s.Addresses, ",") + "/?sslmode=disable&target_session_attrs=read-write")
	if err != nil {
		return nil, errors.New("not what the client library takes") // its error may quote the URL
	}
	conn := config.ConnConfig
	if s.User != "" {
		conn.User = s.User
	}
	if database := strings.TrimPrefix(s.Path, "/"); database != "" {
		conn.Database = database
	}
	conn.Password = s.Password
	if s.TLS != nil {
		conn.TLSConfig = named(s.TLS, conn.Host)
		for _, other := range conn.Fallbacks {
			other.TLSConfig = named(s.TLS, other.Host)
		}
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

// named returns config for a server that has to show a certificate for host, unless config names another.
func named(config *tls.Config, host string) *tls.Config {
	config = config.Clone()
	if config.ServerName == "" {
		config.ServerName = strings.Trim(host, "[]")
	}
	return config
}

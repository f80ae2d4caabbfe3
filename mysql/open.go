package mysql

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/openurl"
)

func init() { openurl.Register("mysql", "mysqls", "3306", open, "schema") }

// open opens mysql://user:password@host:port/database. A Locker with a schema of its own needs no database.
func open(_ context.Context, s *openurl.Server, opts ...locker.Option) (locker.Locker, error) {
	if len(s.Addresses) > 1 {
		return nil, errors.New("several hosts: all Lockers have to speak to the same server")
	}
	config := mysql.NewConfig()
	config.Net, config.Addr = "tcp", s.Addresses[0]
	config.User, config.Passwd, config.DBName = s.User, s.Password, strings.TrimPrefix(s.Path, "/")
	config.TLS = s.TLS
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, errors.New("not what the client library takes") // its error may quote the URL
	}
	if schema, ok := s.Params["schema"]; ok {
		opts = append(opts, WithSchema(schema))
	}
	db := sql.OpenDB(connector)
	db.SetMaxIdleConns(maxIdle)
	l, err := New(db, append(opts, locker.WithOnClose(db.Close))...)
	if err != nil {
		_ = db.Close()
	}
	return l, err
}

// maxIdle is how many connections a pool of ours keeps. The two that database/sql keeps are too few for
// goroutines that lock at the same time.
const maxIdle = 16

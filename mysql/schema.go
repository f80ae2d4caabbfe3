package mysql

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"github.com/seed80cd6120/locker/driver"
)

// version is that of the procedures in schema.sql. A server with a later one is refused.
const version = 1

//go:embed schema.sql
var schemaSQL string

// errCreated says that the schema has been made on this connection, which is not to be used for anything else.
var errCreated = errors.New("the schema has been made")

// prepare makes sure, once, that the schema is there. It returns errCreated if it was not.
func (s *server) prepare(ctx context.Context, conn *sql.Conn) error {
	if s.ready.Load() {
		return nil
	}
	found, err := s.found(ctx, conn)
	if undefined(err) {
		if err = s.create(ctx, conn); err == nil {
			err = errCreated
		}
	}
	switch {
	case err == nil && found > version:
		err = fmt.Errorf("%w: the schema is of version %d, this package of %d", driver.ErrRefused, found, version)
	case code(err) != 0:
		err = fmt.Errorf("use the schema (to make it by hand see schema.sql): %w", err)
	case err == nil:
		s.ready.Store(true)
	}
	return err
}

func (s *server) found(ctx context.Context, conn *sql.Conn) (found int, err error) {
	err = conn.QueryRowContext(ctx, s.call("schema_version")).Scan(&found)
	return found, err
}

// create runs schema.sql. The connection has another default schema then. Those who want to do it at the same time do
// it one after the other.
func (s *server) create(ctx context.Context, conn *sql.Conn) error {
	if _, err := conn.ExecContext(ctx, "do get_lock('locker: create schema', 60)"); err != nil {
		return err
	}
	if found, err := s.found(ctx, conn); err == nil && found >= version {
		return nil // meanwhile
	}
	_, code, _ := strings.Cut(schemaSQL, "\ndelimiter //\n")
	code, _, _ = strings.Cut(code, "delimiter ;")
	statements := []string{"create database if not exists " + s.schema, "use " + s.schema}
	for _, one := range append(statements, strings.Split(code, "//\n")...) {
		if strings.TrimSpace(one) == "" {
			continue
		}
		if _, err := conn.ExecContext(ctx, one); err != nil {
			return err
		}
	}
	return nil
}

// call returns the statement that calls a procedure. Strings, which may be any bytes, are given as hexadecimal
// digits, so that neither quotes nor the character set of the connection matter, and everything is in one message.
func (s *server) call(procedure string, args ...any) string {
	var text strings.Builder
	fmt.Fprintf(&text, "call %s.`%s`(", s.schema, procedure)
	for i, arg := range args {
		if i > 0 {
			text.WriteString(", ")
		}
		switch arg := arg.(type) {
		case string:
			fmt.Fprintf(&text, "x'%x'", arg)
		case id:
			fmt.Fprintf(&text, "x'%s'", string(arg))
		case sql.NullInt64:
			if arg.Valid {
				fmt.Fprint(&text, arg.Int64)
			} else {
				text.WriteString("null")
			}
		default:
			fmt.Fprint(&text, arg)
		}
	}
	text.WriteString(")")
	return text.String()
}

// id is the ID of claims, in hexadecimal digits.
type id string

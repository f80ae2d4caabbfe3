package mysql

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// version is that of the procedures in schema.sql. A server with a later one is refused.
const version = 1

// sweepEvery is how often a Locker that is used removes what others left behind who are gone.
const sweepEvery = time.Minute

//go:embed schema.sql
var schemaSQL string

// errCreated says that the schema has been made on this connection, which is not to be used for anything else.
var errCreated = errors.New("the schema has been made")

// prepare makes sure, once, that the schema is there. It returns errCreated if it was not.
func (b *backend) prepare(ctx context.Context, conn *sql.Conn) error {
	if b.ready.Load() {
		return nil
	}
	found, err := b.found(ctx, conn)
	if undefined(err) {
		if err = b.create(ctx, conn); err == nil {
			err = errCreated
		}
	}
	switch {
	case err == nil && found > version:
		err = fmt.Errorf("%w: schema %s is of version %d, this package of %d", driver.ErrRefused, b.schema, found, version)
	case code(err) != 0:
		err = fmt.Errorf("use schema %s (to make it by hand see schema.sql): %w", b.schema, err)
	case err == nil:
		b.ready.Store(true)
	}
	return err
}

func (b *backend) found(ctx context.Context, conn *sql.Conn) (found int, err error) {
	err = conn.QueryRowContext(ctx, b.call("schema_version")).Scan(&found)
	return found, err
}

// create runs schema.sql. The connection has another default schema then. Those who want to do it at the same time do
// it one after the other.
func (b *backend) create(ctx context.Context, conn *sql.Conn) error {
	if _, err := conn.ExecContext(ctx, "do get_lock('locker: create schema', 60)"); err != nil {
		return err
	}
	if found, err := b.found(ctx, conn); err == nil && found >= version {
		return nil // meanwhile
	}
	_, code, _ := strings.Cut(schemaSQL, "\ndelimiter //\n")
	code, _, _ = strings.Cut(code, "delimiter ;")
	statements := []string{"create database if not exists " + b.schema, "use " + b.schema}
	for _, s := range append(statements, strings.Split(code, "//\n")...) {
		if strings.TrimSpace(s) == "" {
			continue
		}
		if _, err := conn.ExecContext(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// call returns the statement that calls a procedure. Strings, which may be any bytes, are given as hexadecimal
// digits, so that neither quotes nor the character set of the connection matter, and everything is in one message.
func (b *backend) call(procedure string, args ...any) string {
	var s strings.Builder
	fmt.Fprintf(&s, "call %s.`%s`(", b.schema, procedure)
	for i, arg := range args {
		if i > 0 {
			s.WriteString(", ")
		}
		switch arg := arg.(type) {
		case string:
			fmt.Fprintf(&s, "x'%x'", arg)
		case id:
			fmt.Fprintf(&s, "x'%s'", string(arg))
		case sql.NullInt64:
			if arg.Valid {
				fmt.Fprint(&s, arg.Int64)
			} else {
				s.WriteString("null")
			}
		default:
			fmt.Fprint(&s, arg)
		}
	}
	s.WriteString(")")
	return s.String()
}

// id is the ID of claims, in hexadecimal digits.
type id string

// sweep removes now and then what those left behind who are gone.
func (b *backend) sweep() {
	now, last := int64(b.clock.Now()), b.swept.Load()
	if last != 0 && now-last < int64(sweepEvery) || !b.swept.CompareAndSwap(last, now) {
		return
	}
	b.working.Go(func() {
		_, _ = b.request(b.life, func(ctx context.Context, conn *sql.Conn) error {
			_, err := conn.ExecContext(ctx, b.call("sweep"))
			return err
		})
	})
}

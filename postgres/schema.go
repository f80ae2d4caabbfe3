package postgres

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed80cd6120/locker/driver"
)

// version is that of the functions in schema.sql. A server with a later one is refused.
const version = 1

//go:embed schema.sql
var schemaSQL string

// statements are all that is sent, with the schema's name in them. Names are bytea, because they may be
// any bytes.
type statements struct {
	version, acquire, release, renew, lighten, due, look, names, evict, sweep string
}

func newStatements(schema string) statements {
	s := pgx.Identifier{schema}.Sanitize() + "."
	return statements{
		version: "select " + s + "version()",
		acquire: "select * from " + s + `acquire($1::bytea, $2::text::uuid, $3::int, $4::int, $5::int, $6::bigint,
			$7::bytea, $8::bigint, $9::boolean, $10::bigint)`,
		release: "select " + s + "release($1::bytea, $2::text::uuid, $3::bigint, $4::bigint)",
		renew: "select replace(held::text, '-', ''), time_left, wanted from " + s +
			"renew($1::text[]::uuid[], $2::bigint[])",
		lighten: "select " + s + "lighten($1::bytea, $2::text::uuid, $3::int)",
		due:     "select replace(claim_id::text, '-', '') from " + s + "due($1::text[]::uuid[])",
		look: `select replace(claim_id::text, '-', ''), claim_weight, claim_limit, claim_owner, claim_token,
			claim_since, time_left from ` + s + "look($1::bytea)",
		names: "select n from " + s + "names($1::bytea) n",
		evict: "select " + s + "evict($1::bytea, $2::text::uuid)",
		sweep: "select " + s + "sweep()",
	}
}

// checkSession returns an error if pgx would send no simple statement on a connection, for its settings.
func checkSession(conn *pgconn.PgConn) error {
	for _, setting := range [...][2]string{{"client_encoding", "UTF8"}, {"standard_conforming_strings", "on"}} {
		if value := conn.ParameterStatus(setting[0]); value != setting[1] {
			return fmt.Errorf("%w: the connection has %s %q, want %q", driver.ErrRefused, setting[0], value, setting[1])
		}
	}
	return nil
}

// prepare makes sure that a connection can be used and, once, that the schema is there.
func (s *server) prepare(ctx context.Context, conn *pgxpool.Conn) error {
	if err := checkSession(conn.Conn().PgConn()); err != nil {
		return err
	}
	if !s.ready.Load() {
		found, err := s.found(ctx, conn)
		if undefined(err) {
			if err := s.create(ctx, conn); err != nil {
				return fmt.Errorf("create the schema (to do it by hand see schema.sql): %w", err)
			}
			found, err = s.found(ctx, conn)
		}
		if err != nil {
			return err
		}
		if found > version {
			return fmt.Errorf("%w: the schema is of version %d, this package of %d", driver.ErrRefused, found, version)
		}
		s.ready.Store(true)
	}
	return nil
}

func (s *server) found(ctx context.Context, conn *pgxpool.Conn) (found int, err error) {
	err = conn.QueryRow(ctx, s.statements.version, simple).Scan(&found)
	return found, err
}

// create runs schema.sql, whose variables are those of psql.
func (s *server) create(ctx context.Context, conn *pgxpool.Conn) error {
	persistence := "unlogged"
	if s.settings.durable {
		persistence = ""
	}
	_, code, _ := strings.Cut(schemaSQL, "\nbegin;\n") // the comment above explains the variables
	name := pgx.Identifier{s.settings.schema}.Sanitize()
	code = strings.NewReplacer(`:"schema"`, name, ":persistence", persistence).Replace(code)
	_, err := conn.Conn().PgConn().Exec(ctx, "begin;\n"+code).ReadAll()
	return err
}

// undefined reports whether err says that the schema, or a function in it, is not there.
func undefined(err error) bool {
	switch code(err) {
	case "3F000", "42883", "42P01":
		return true
	}
	return false
}

// code returns the SQLSTATE that the server answered, "" if err is none.
func code(err error) string {
	var answer *pgconn.PgError
	if errors.As(err, &answer) {
		return answer.Code
	}
	return ""
}

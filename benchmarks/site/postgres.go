package site

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// storedRows counts the rows of all tables.
const storedRows = `select coalesce(sum((xpath('/row/n/text()', query_to_xml(format('select count(*) as n from %I.%I', schemaname, tablename),
	false, true, '')))[1]::text::bigint), 0) from pg_tables where schemaname not in ('pg_catalog', 'information_schema')`

// postgres runs a statement and returns what it answers, as text.
func (s *Site) postgres(ctx context.Context, statement string) (answer string, err error) {
	conn, err := pgx.Connect(ctx, s.Postgres.URL())
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	results, err := conn.PgConn().Exec(ctx, statement).ReadAll()
	if err != nil {
		return "", err
	}
	return string(results[0].Rows[0][0]), nil
}

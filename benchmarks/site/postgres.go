package site

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// storedRows counts the rows of all tables.
const storedRows = `select coalesce(sum((xpath('/row/n/text()', query_to_xml(format('select count(*) as n from %I.%I', schemaname, tablename),
	false, true, '')))[1]::text::bigint), 0) from pg_tables where schemaname not in ('pg_catalog', 'information_schema')`

// postgres runs statements and returns what the last one answers, as text.
func (s *Site) postgres(ctx context.Context, statements ...string) (answer string, err error) {
	conn, err := pgx.Connect(ctx, s.Postgres.URL())
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	for _, query := range statements {
		results, err := conn.PgConn().Exec(ctx, query).ReadAll()
		if err != nil {
			return "", err
		}
		if r := results[len(results)-1]; len(r.Rows) > 0 {
			answer = string(r.Rows[0][0])
		}
	}
	return answer, nil
}

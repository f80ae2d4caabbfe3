// Package inserttable protects a table to which rows are only added (a ledger, a log of events) from writers whose
// lock is gone.
//
// Where does the old token come from? It is in the last row: each row has the token under which it was written. The
// statement that adds a row looks up the last one, and adds nothing if that has a greater token. No row is ever changed,
// and the tokens of a ledger never fall from one row to the next.
//
// The primary key does the rest: two writers who see the same last row want the same position, and one of them fails.
//
// A new holder adds a row before it reads, if only one that says that it has taken over: until then the table does
// not know of it, and still lets its predecessor write.
package inserttable

import (
	"context"
	"database/sql"
	"errors"
)

// Schema makes the table of the example. The statements are those of SQLite and PostgreSQL.
const Schema = `
CREATE TABLE entries (
	ledger   TEXT   NOT NULL,
	position BIGINT NOT NULL,
	token    BIGINT NOT NULL,
	body     TEXT   NOT NULL,
	PRIMARY KEY (ledger, position)
);`

// ErrLate is returned to a writer when a later holder of the lock has added a row.
var ErrLate = errors.New("inserttable: a later holder has written")

const add = `
INSERT INTO entries (ledger, position, token, body)
SELECT $1, last.position + 1, $2, $3
FROM (
	SELECT COALESCE(MAX(position), 0) AS position,
	       COALESCE(MAX(token), 0)    AS token
	FROM entries WHERE ledger = $1
) AS last
WHERE last.token <= $2`

// Add adds a row. It returns ErrLate if a row has a greater token. Any other error may be that somebody else has taken the
// position at the same moment: call Add again, and it is either done or ErrLate.
func Add(ctx context.Context, db *sql.DB, token int64, ledger, body string) error {
	result, err := db.ExecContext(ctx, add, ledger, token, body)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); n == 1 || err != nil {
		return err
	}
	return ErrLate
}

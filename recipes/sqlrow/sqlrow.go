// Package sqlrow protects rows of a database from writers whose lock is gone.
//
// Where does the old token come from? It is in the database, beside the data: in a column of the row ([SetState]), or in
// a table that has one row for each name ([Fence]). The writer does not read it: the statement that writes compares the two
// numbers, and changes nothing if its own is lower.
//
// A row that nobody has fenced yet has token 0, and every holder's is greater. So a new holder fences before it reads
// what it is going to change: until then the database does not know of it, and still lets its predecessor write.
//
// The statements are the same in SQLite and PostgreSQL. In MySQL [Fence] needs another: see its comment.
package sqlrow

import (
	"context"
	"database/sql"
	"errors"
)

// Schema makes the tables of the example.
const Schema = `
CREATE TABLE orders (id BIGINT PRIMARY KEY, state TEXT NOT NULL, token BIGINT NOT NULL DEFAULT 0);
CREATE TABLE fences (name TEXT PRIMARY KEY, token BIGINT NOT NULL);`

// ErrLate is returned to a writer when a later holder of the lock has been there.
var ErrLate = errors.New("sqlrow: a later holder has written")

const setState = `
UPDATE orders SET state = $1, token = $2
WHERE id = $3 AND token <= $2`

// SetState changes one row, whose own column has the token. It returns ErrLate if the row has a greater one, and
// sql.ErrNoRows if there is no such row.
func SetState(ctx context.Context, db *sql.DB, token, id int64, state string) error {
	result, err := db.ExecContext(ctx, setState, state, token, id)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); n == 1 || err != nil {
		return err
	}
	var exists int
	if err := db.QueryRowContext(ctx, `SELECT 1 FROM orders WHERE id = $1`, id).Scan(&exists); err != nil {
		return err
	}
	return ErrLate
}

const fence = `
INSERT INTO fences (name, token) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET token = excluded.token
WHERE fences.token <= excluded.token`

// Fence is the first statement of a transaction in which the holder of name reads and writes whatever the name stands
// for. It returns ErrLate if a later holder has been there; roll back then. Until the transaction ends no other holder
// of the name gets past its own Fence, and so none writes in between.
//
// MySQL counts 2 rows for an update and has no WHERE there: INSERT IGNORE the name with token 0, then
// UPDATE fences SET token = ? WHERE name = ? AND token <= ?, with clientFoundRows=true in the data source name, since
// MySQL otherwise does not count a row that has the token already.
func Fence(ctx context.Context, tx *sql.Tx, name string, token int64) error {
	result, err := tx.ExecContext(ctx, fence, name, token)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); n == 1 || err != nil {
		return err
	}
	return ErrLate
}

package inserttable

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"github.com/seed80cd6120/locker/recipes/internal/late"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "db")+"?_pragma=busy_timeout(60000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.Exec(Schema); err != nil {
		t.Fatal(err)
	}
	return db
}

func TestAdd(t *testing.T) {
	db := open(t)
	late.Test(t, func(ctx context.Context, token int64, value string) error {
		return Add(ctx, db, token, "account/7", value)
	}, func(ctx context.Context) (body string, err error) {
		err = db.QueryRowContext(ctx, `SELECT body FROM entries WHERE ledger = 'account/7' ORDER BY position DESC LIMIT 1`).Scan(&body)
		return body, err
	}, ErrLate)
}

// With writers of many tokens at the same time the tokens still never fall, and positions have no gaps.
func TestOrder(t *testing.T) {
	db := open(t)
	var wg sync.WaitGroup
	for token := range int64(8) {
		wg.Go(func() {
			for range 5 {
				if err := Add(t.Context(), db, token, "account/7", ""); err != nil && !errors.Is(err, ErrLate) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	rows, err := db.Query(`SELECT position, token FROM entries ORDER BY position`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var n, last int64
	for rows.Next() {
		var position, token int64
		if err := rows.Scan(&position, &token); err != nil {
			t.Fatal(err)
		}
		if n++; position != n || token < last {
			t.Errorf("row %d has position %d and token %d after %d", n, position, token, last)
		}
		last = token
	}
	if err := rows.Err(); err != nil || last != 7 {
		t.Errorf("last token %d, %v", last, err)
	}
}

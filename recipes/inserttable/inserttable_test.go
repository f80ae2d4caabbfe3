package inserttable

import (
	"context"
	"database/sql"
	"sync"
	"testing"

	"github.com/seed80cd6120/locker/internal/leaks"
	"github.com/seed80cd6120/locker/recipes/internal/database"
	"github.com/seed80cd6120/locker/recipes/internal/late"
)

func TestMain(m *testing.M) { leaks.Main(m) }

func TestAdd(t *testing.T) {
	database.Each(t, Schema, func(t *testing.T, db *sql.DB) {
		late.Test(t, func(ctx context.Context, token int64, value string) error {
			return Add(ctx, db, token, "account/7", value)
		}, func(ctx context.Context) (body string, err error) {
			err = db.QueryRowContext(ctx, `SELECT body FROM entries WHERE ledger = 'account/7' ORDER BY position DESC LIMIT 1`).Scan(&body)
			return body, err
		}, ErrLate)
	})
}

// With writers of many tokens at the same time the tokens still never fall, and positions have no gaps.
func TestOrder(t *testing.T) {
	database.Each(t, Schema, func(t *testing.T, db *sql.DB) {
		var wg sync.WaitGroup
		for token := range int64(8) {
			wg.Go(func() {
				for range 5 {
					// An error other than ErrLate: another has taken the position.
					for Add(t.Context(), db, token, "account/7", "") != nil && token == 7 {
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
		var n, last, own int64
		for rows.Next() {
			var position, token int64
			if err := rows.Scan(&position, &token); err != nil {
				t.Fatal(err)
			}
			if n++; position != n || token < last {
				t.Errorf("row %d has position %d and token %d after %d", n, position, token, last)
			}
			if last = token; token == 7 {
				own++
			}
		}
		if err := rows.Err(); err != nil || own != 5 {
			t.Errorf("%d rows with the greatest token, want 5: %v", own, err)
		}
	})
}

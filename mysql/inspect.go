package mysql

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"iter"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// rows calls a procedure and returns what scan makes of each row that it answers.
func rows[T any](ctx context.Context, b *backend, call string, scan func(*sql.Rows) (T, error)) (all []T, err error) {
	_, err = b.request(ctx, func(ctx context.Context, conn *sql.Conn) error {
		all = nil
		rows, err := conn.QueryContext(ctx, call)
		if err != nil {
			return err
		}
		for err == nil && rows.Next() {
			var one T
			one, err = scan(rows)
			all = append(all, one)
		}
		return errors.Join(err, rows.Err(), rows.Close())
	})
	return all, err
}

// Look implements [driver.Inspector].
func (b *backend) Look(ctx context.Context, name string) ([]driver.Position, error) {
	return rows(ctx, b, b.call("look", name), func(rows *sql.Rows) (driver.Position, error) {
		var (
			token       sql.NullInt64
			since, left int64
		)
		p := driver.Position{Name: name}
		err := rows.Scan(&p.ID, &p.Weight, &p.Limit, &p.Owner, &token, &since, &left)
		p.Held, p.Token, p.Since = token.Valid, token.Int64, time.UnixMicro(since)
		if p.Held {
			p.Left = time.Duration(left) * time.Microsecond
		}
		return p, err
	})
}

// Names implements [driver.Inspector].
func (b *backend) Names(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		all, err := rows(ctx, b, b.call("names", prefix), func(rows *sql.Rows) (name string, err error) {
			err = rows.Scan(&name)
			return name, err
		})
		if err != nil {
			yield("", err)
			return
		}
		for _, name := range all {
			if !yield(name, nil) {
				return
			}
		}
	}
}

// Evict implements [driver.Evictor].
func (b *backend) Evict(ctx context.Context, name, claimID string) error {
	if bytes, err := hex.DecodeString(claimID); err != nil || len(bytes) != 16 {
		return driver.ErrGone // nobody's
	}
	answer, lost, err := b.number(ctx, "release", name, id(claimID), 0, 0, true)
	if err == nil && answer == 0 && !lost {
		err = driver.ErrGone
	}
	return err
}

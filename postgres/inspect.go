package postgres

import (
	"context"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed80cd6120/locker/driver"
)

// Look implements [driver.Inspector].
func (b *backend) Look(ctx context.Context, name string) (all []driver.Position, err error) {
	_, err = b.call(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		rows, err := conn.Query(ctx, b.statements.look, simple, []byte(name))
		if err != nil {
			return err
		}
		all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (driver.Position, error) {
			var (
				owner       []byte
				token       *int64
				since, left int64
			)
			p := driver.Position{Name: name}
			err := row.Scan(&p.ID, &p.Weight, &p.Limit, &owner, &token, &since, &left)
			p.Owner, p.Held, p.Token, p.Since = string(owner), token != nil, value(token), time.UnixMicro(since)
			if p.Held {
				p.Left = time.Duration(left) * time.Microsecond
			}
			return p, err
		})
		return err
	})
	return all, err
}

// Names implements [driver.Inspector].
func (b *backend) Names(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		var all [][]byte
		_, err := b.call(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
			rows, err := conn.Query(ctx, b.statements.names, simple, []byte(prefix))
			if err == nil {
				all, err = pgx.CollectRows(rows, pgx.RowTo[[]byte])
			}
			return err
		})
		if err != nil {
			yield("", err)
			return
		}
		for _, name := range all {
			if !yield(string(name), nil) {
				return
			}
		}
	}
}

// Evict implements [driver.Evictor].
func (b *backend) Evict(ctx context.Context, name, id string) error {
	var answer int
	lost, err := b.call(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, b.statements.evict, simple, []byte(name), id).Scan(&answer)
	})
	if err == nil && answer == 0 && !lost {
		err = driver.ErrGone
	}
	return err
}

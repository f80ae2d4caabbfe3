package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/sqlqueue"
)

// attempts is how many times in a row a request may meet a broken connection or a deadlock.
const attempts = 3

// simple is how every statement is sent: in one message, so that the server ends the transaction by itself. In the
// extended protocol it waits for one more, meanwhile the name would be locked, and the network may break in between.
// It is also what poolers in transaction mode need, and one round trip.
const simple = pgx.QueryExecModeSimpleProtocol

// server sends the requests. It implements [sqlqueue.Server].
type server struct {
	pool       *pgxpool.Pool
	settings   settings
	statements statements
	ready      atomic.Bool // the schema is there
}

// request is something that is sent on a connection of the pool.
type request func(ctx context.Context, conn *pgxpool.Conn) error

// call sends a request, and again if the connection was found broken or there was a deadlock. It returns soon
// after ctx has ended. lost says that the server may have heard of it without having answered. Every statement
// can bear to be carried out more than once.
func (s *server) call(ctx context.Context, do request) (lost bool, err error) {
	for range attempts {
		err = s.once(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
			if err := s.prepare(ctx, conn); err != nil {
				return err
			}
			err := do(ctx, conn)
			if undefined(err) {
				s.ready.Store(false) // dropped, or a server that never had it
			}
			lost = lost || err != nil && !ineffective(err)
			return err
		})
		again := code(err) == "" || undefined(err) || among(conflicts, code(err))
		if err == nil || !again || ctx.Err() != nil || errors.Is(err, sqlqueue.ErrNoAnswer) {
			break
		}
	}
	if err != nil {
		err = explain(err)
	}
	return lost, err
}

// once sends a request on one connection.
func (s *server) once(ctx context.Context, do request) error {
	return sqlqueue.Limit(ctx, func(ctx context.Context) error {
		conn, err := s.pool.Acquire(ctx)
		if err != nil {
			return fmt.Errorf("connect: %w", withoutUser(err))
		}
		defer conn.Release()
		return do(ctx, conn)
	})
}

// one sends a statement that answers one row, and scans it.
func (s *server) one(ctx context.Context, statement string, args []any, into ...any) (lost bool, err error) {
	return s.call(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, statement, append([]any{simple}, args...)...).Scan(into...)
	})
}

// all sends a statement, and returns what scan makes of each row of its answer.
func all[T any](ctx context.Context, s *server, statement string, arg any, scan pgx.RowToFunc[T]) (list []T, err error) {
	_, err = s.call(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		rows, err := conn.Query(ctx, statement, simple, arg)
		if err == nil {
			list, err = pgx.CollectRows(rows, scan)
		}
		return err
	})
	return list, err
}

func (s *server) Acquire(ctx context.Context, c *sqlqueue.Claim, listener int64, stamp func() (driver.Instant, int64)) (a sqlqueue.Answer, lost bool, err error) {
	var channel *int64
	if listener != 0 {
		channel = &listener
	}
	lost, err = s.call(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		sent, latest := stamp()
		a = sqlqueue.Answer{Sent: sent}
		var token, spare, end *int64
		var first *bool
		err := conn.QueryRow(ctx, s.statements.acquire, simple,
			[]byte(c.Name), c.ID, c.Weight, c.Limit, c.Spare, sqlqueue.Millis(c.TTL), []byte(c.Owner), latest, c.Wait, channel).
			Scan(&a.State, &a.Now, &token, &spare, &end, &first)
		a.Token, a.Spare, a.First = value(token), value(spare), value(first)
		a.FirstEnd = time.Duration(value(end)) * time.Millisecond
		return err
	})
	return a, lost, err
}

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

func (s *server) End(ctx context.Context, c *sqlqueue.Claim, d time.Duration) (answer int, lost bool, err error) {
	lost, err = s.one(ctx, s.statements.release, []any{[]byte(c.Name), c.ID, sqlqueue.Millis(d), c.LateUntil}, &answer)
	return answer, lost, err
}

func (s *server) Lighten(ctx context.Context, c *driver.Claim, weight int32) (held bool, err error) {
	_, err = s.one(ctx, s.statements.lighten, []any{[]byte(c.Name), c.ID, weight}, &held)
	return held, err
}

func (s *server) Evict(ctx context.Context, name, id string) (answer int, lost bool, err error) {
	lost, err = s.one(ctx, s.statements.evict, []any{[]byte(name), id}, &answer)
	return answer, lost, err
}

func (s *server) Renew(ctx context.Context, claims []*driver.Claim, stamp func()) (held map[string]sqlqueue.Holding, err error) {
	ids, ttls := make([]string, len(claims)), make([]int64, len(claims))
	for i, c := range claims {
		ids[i] = c.ID
		if !c.Lease {
			ttls[i] = sqlqueue.Millis(c.TTL)
		}
	}
	_, err = s.call(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		held = make(map[string]sqlqueue.Holding)
		stamp()
		rows, err := conn.Query(ctx, s.statements.renew, simple, ids, ttls)
		if err != nil {
			return err
		}
		var id string
		var left int64
		var wanted bool
		_, err = pgx.ForEachRow(rows, []any{&id, &left, &wanted}, func() error {
			held[id] = sqlqueue.Holding{Left: time.Duration(left) * time.Microsecond, Wanted: wanted}
			return nil
		})
		return err
	})
	return held, err
}

func (s *server) Names(ctx context.Context, prefix string) ([]string, error) {
	return all(ctx, s, s.statements.names, []byte(prefix), func(row pgx.CollectableRow) (string, error) {
		name, err := pgx.RowTo[[]byte](row)
		return string(name), err
	})
}

func (s *server) Sweep(ctx context.Context) {
	_, _ = s.call(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		_, err := conn.Exec(ctx, s.statements.sweep, simple)
		return err
	})
}

// Look implements [driver.Inspector].
func (b *backend) Look(ctx context.Context, name string) ([]driver.Position, error) {
	return all(ctx, b.server, b.server.statements.look, []byte(name), func(row pgx.CollectableRow) (driver.Position, error) {
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
}

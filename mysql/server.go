package mysql

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/sqlqueue"
)

// attempts is how many times in a row a request may meet a broken connection or a deadlock.
const attempts = 5

// server sends the requests. It implements [sqlqueue.Server].
type server struct {
	db     *sql.DB
	listen *sql.DB   // for the connection that listens
	keeper *sql.Conn // for Listen
	schema string    // quoted
	ready  atomic.Bool
}

// statement is something that is sent on a connection of the pool.
type statement func(ctx context.Context, conn *sql.Conn) error

// request sends a statement, and again if the connection was found broken or there was a deadlock. It returns soon
// after ctx has ended. lost says that the server may have heard of it without having answered. Every statement can
// bear to be carried out more than once.
func (s *server) request(ctx context.Context, do statement) (lost bool, err error) {
	for range attempts {
		sent := false
		err = s.once(ctx, func(ctx context.Context, conn *sql.Conn) error {
			if err := s.prepare(ctx, conn); err != nil {
				return err
			}
			sent = true
			err := do(ctx, conn)
			if undefined(err) {
				s.ready.Store(false) // dropped, or a server that never had it
			}
			return err
		})
		lost = lost || sent && err != nil && !ineffective(err)
		again := broken(err) || undefined(err) || among(conflicts, err) || errors.Is(err, errCreated)
		if !again || ctx.Err() != nil || errors.Is(err, sqlqueue.ErrNoAnswer) {
			break
		}
	}
	if err != nil {
		err = explain(err)
	}
	return lost, err
}

// once sends a statement on one connection. After an error the connection is closed, because a transaction may be open in
// it, with rows that it has locked.
func (s *server) once(ctx context.Context, do statement) error {
	return sqlqueue.Limit(ctx, func(ctx context.Context) error {
		conn, err := s.db.Conn(ctx)
		if err != nil {
			return fmt.Errorf("connect: %w", err)
		}
		if err := do(ctx, conn); err != nil {
			discard(conn)
			return err
		}
		_ = conn.Close()
		return nil
	})
}

// discard closes a connection rather than give it back to the pool.
func discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return sqldriver.ErrBadConn })
	_ = conn.Close()
}

// one calls a procedure that answers one row, and scans it.
func (s *server) one(ctx context.Context, call string, into ...any) (lost bool, err error) {
	return s.request(ctx, func(ctx context.Context, conn *sql.Conn) error {
		return conn.QueryRowContext(ctx, call).Scan(into...)
	})
}

// all calls a procedure and returns what scan makes of each row that it answers.
func all[T any](ctx context.Context, s *server, call string, scan func(*sql.Rows) (T, error)) (list []T, err error) {
	_, err = s.request(ctx, func(ctx context.Context, conn *sql.Conn) error {
		list = nil
		rows, err := conn.QueryContext(ctx, call)
		if err != nil {
			return err
		}
		for err == nil && rows.Next() {
			var one T
			one, err = scan(rows)
			list = append(list, one)
		}
		return errors.Join(err, rows.Err(), rows.Close())
	})
	return list, err
}

func (s *server) Acquire(ctx context.Context, c *sqlqueue.Claim, listener int64, stamp func() (driver.Instant, int64)) (a sqlqueue.Answer, lost bool, err error) {
	number := sql.NullInt64{Int64: listener, Valid: listener != 0}
	lost, err = s.request(ctx, func(ctx context.Context, conn *sql.Conn) error {
		sent, latest := stamp()
		a = sqlqueue.Answer{Sent: sent}
		var token, end sql.NullInt64
		err := conn.QueryRowContext(ctx, s.call("acquire", c.Name, id(c.ID), c.Weight, c.Limit, c.Spare, sqlqueue.Millis(c.TTL),
			c.Owner, latest, c.Wait, number)).Scan(&a.State, &a.Now, &token, &a.Spare, &end, &a.First)
		a.Token, a.FirstEnd = token.Int64, time.Duration(end.Int64)*time.Millisecond
		return err
	})
	return a, lost, err
}

func (s *server) End(ctx context.Context, c *sqlqueue.Claim, d time.Duration) (answer int, lost bool, err error) {
	lost, err = s.one(ctx, s.call("release", c.Name, id(c.ID), sqlqueue.Millis(d), c.LateUntil, false), &answer)
	return answer, lost, err
}

func (s *server) Lighten(ctx context.Context, c *driver.Claim, weight int32) (held bool, err error) {
	_, err = s.one(ctx, s.call("lighten", c.Name, id(c.ID), weight), &held)
	return held, err
}

func (s *server) Evict(ctx context.Context, name, claimID string) (answer int, lost bool, err error) {
	lost, err = s.one(ctx, s.call("release", name, id(claimID), 0, 0, true), &answer)
	return answer, lost, err
}

func (s *server) Renew(ctx context.Context, claims []*driver.Claim, stamp func()) (held map[string]sqlqueue.Holding, err error) {
	var list strings.Builder
	for _, c := range claims {
		ttl := int64(0)
		if !c.Lease {
			ttl = sqlqueue.Millis(c.TTL)
		}
		fmt.Fprintf(&list, "%s%016x", c.ID, ttl)
	}
	var text string
	_, err = s.request(ctx, func(ctx context.Context, conn *sql.Conn) error {
		stamp()
		return conn.QueryRowContext(ctx, s.call("renew", id(list.String()))).Scan(&text)
	})
	held = make(map[string]sqlqueue.Holding)
	for one := range strings.SplitSeq(text, ",") {
		var id string
		var left int64
		var wanted int
		if n, _ := fmt.Sscan(one, &id, &left, &wanted); n == 3 {
			held[id] = sqlqueue.Holding{Left: time.Duration(left) * time.Microsecond, Wanted: wanted > 0}
		}
	}
	return held, err
}

func (s *server) Names(ctx context.Context, prefix string) ([]string, error) {
	return all(ctx, s, s.call("names", prefix), func(rows *sql.Rows) (name string, err error) {
		err = rows.Scan(&name)
		return name, err
	})
}

func (s *server) Sweep(ctx context.Context) {
	_, _ = s.request(ctx, func(ctx context.Context, conn *sql.Conn) error {
		_, err := conn.ExecContext(ctx, s.call("sweep"))
		return err
	})
}

// Look implements [driver.Inspector].
func (b *backend) Look(ctx context.Context, name string) ([]driver.Position, error) {
	return all(ctx, b.server, b.server.call("look", name), func(rows *sql.Rows) (driver.Position, error) {
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

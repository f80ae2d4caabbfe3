package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed80cd6120/locker/internal/sqlqueue"
)

// silent is how long the server may say nothing before it is asked whether it is there.
const silent = 30 * time.Second

// Listen takes what the server says until there is an error.
func (s *server) Listen(ctx context.Context, l *sqlqueue.Listener) error {
	conn, number, err := s.connect(ctx)
	if err != nil {
		if !s.Transient(err) && !errors.Is(err, sqlqueue.ErrCannotListen) {
			err = explain(fmt.Errorf("listen: %w", err))
		}
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	l.Listens(number)
	for {
		waiting, cancel := context.WithTimeout(ctx, silent)
		news, err := conn.WaitForNotification(waiting)
		cancel()
		switch {
		case err == nil:
			hear(l, news.Payload)
		case conn.IsClosed() || ctx.Err() != nil:
			return err
		default:
			answering, cancel := context.WithTimeout(ctx, sqlqueue.Fresh)
			err := conn.Ping(answering)
			if err == nil && !s.knows(answering, number) {
				err = errors.New("the statements go to another server now")
			}
			cancel()
			if err != nil {
				return err
			}
		}
	}
}

// connect returns a connection on which the server tells news, and its number, which is that of the channel and of
// the advisory lock by which the server knows that somebody listens.
func (s *server) connect(ctx context.Context) (*pgx.Conn, int64, error) {
	ctx, cancel := context.WithTimeout(ctx, sqlqueue.Fresh)
	defer cancel()
	config := s.settings.listen
	if config == nil {
		pool := s.pool.Config()
		config = pool.ConnConfig
		if pool.BeforeConnect != nil {
			if err := pool.BeforeConnect(ctx, config); err != nil {
				return nil, 0, err
			}
		}
	}
	config = config.Copy()
	config.OnNotification = nil // it would take them away
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, 0, withoutUser(err)
	}
	number := rand.Int64N(math.MaxInt64) + 1
	err = subscribe(ctx, conn, number)
	if err == nil && !s.knows(ctx, number) {
		if err = conn.Ping(ctx); err == nil { // else it is the other end that has changed meanwhile
			err = fmt.Errorf("%w: the connection that listens leads to another database", sqlqueue.ErrCannotListen)
		}
	}
	if err != nil {
		_ = conn.Close(ctx)
		return nil, 0, err
	}
	return conn, number, nil
}

// knows asks where the statements go whether somebody listens by that number; it returns false when the answer is that nobody
// does.
func (s *server) knows(ctx context.Context, number int64) bool {
	ctx, cancel := context.WithTimeout(ctx, sqlqueue.Brief)
	defer cancel()
	var free bool
	_, err := s.one(ctx, "select pg_try_advisory_xact_lock_shared($1)", []any{number}, &free)
	return err != nil || !free
}

func subscribe(ctx context.Context, conn *pgx.Conn, number int64) error {
	var pid uint32
	if err := conn.QueryRow(ctx, "select pg_backend_pid()", simple).Scan(&pid); err != nil {
		return err
	}
	if pid != conn.PgConn().PID() {
		return fmt.Errorf("%w: a pooler is in between", sqlqueue.ErrCannotListen)
	}
	query := fmt.Sprintf(`listen "locker_%d"; select pg_advisory_lock(%d)`, number, number)
	_, err := conn.PgConn().Exec(ctx, query).ReadAll()
	return err
}

// hear passes on a message, see tell in schema.sql: "look <id>" or "granted <id> <token> <spare>
// <server time>".
func hear(l *sqlqueue.Listener, text string) {
	words := strings.Fields(text)
	if len(words) < 2 {
		return
	}
	number := func(i int) int64 {
		x, _ := strconv.ParseInt(words[i], 10, 64)
		return x
	}
	var e sqlqueue.Event
	switch {
	case words[0] == "granted" && len(words) == 5:
		e.Granted, e.Token, e.Spare, e.Now = true, number(2), number(3), number(4)
	case words[0] != "look":
		return
	}
	l.Tell(strings.ReplaceAll(words[1], "-", ""), e)
}

// Poll asks which of those who wait ought to look, and tells them.
func (s *server) Poll(ctx context.Context, l *sqlqueue.Listener) {
	for waiting := range slices.Chunk(slices.Sorted(maps.Keys(l.Waiting())), sqlqueue.AtOnce) { // each at about the same time of a pass
		due, _ := all(ctx, s, s.statements.due, waiting, pgx.RowTo[string]) // those who wait look by themselves, too
		for _, id := range due {
			l.Tell(id, sqlqueue.Event{})
		}
	}
}

package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/seed80cd6120/locker/internal/sqlqueue"
)

// asleep is how long the statement sleeps in which a Locker is told news.
const asleep = 20 * time.Second

// pollAfter is when a Locker polls after that statement was sent. The first time the server has mostly read the rows and
// sleeps, the second time it surely does.
var pollAfter = [...]time.Duration{50 * time.Millisecond, time.Second}

// errKeeper says that a connection is the keeper now, and another is needed to listen.
var errKeeper = errors.New("the connection is the keeper")

// errFull says that the pool has no connection for the listener, or none besides that of the keeper.
var errFull = fmt.Errorf("%w: the pool is full", sqlqueue.ErrCannotListen)

// Listen keeps a connection and takes what the server says there, until there is an error. The connection is not
// used for statements afterwards: it may have been woken just now.
func (s *server) Listen(life context.Context, l *sqlqueue.Listener) error {
	defer s.keep(nil)
	err := errKeeper
	for errors.Is(err, errKeeper) {
		err = s.hearAll(life, l)
	}
	if !s.Transient(err) {
		err = fmt.Errorf("%w: %w", sqlqueue.ErrCannotListen, err)
	}
	return err
}

// keep makes conn the keeper, a connection that does nothing but have the named lock for which all sleep; nil for none. One that
// listened before has the lock of its number, too.
func (s *server) keep(conn *sql.Conn) {
	if s.keeper != nil {
		discard(s.keeper)
	}
	s.keeper = conn
}

func (s *server) hearAll(life context.Context, l *sqlqueue.Listener) error {
	conn, number, err := s.connect(life)
	if err != nil {
		return err
	}
	defer func() {
		if conn != s.keeper {
			discard(conn)
		}
	}()
	l.Listens(number)
	for checked := time.Now(); ; {
		ctx, cancel := context.WithTimeout(life, asleep+sqlqueue.Fresh)
		var beside sync.WaitGroup
		elsewhere, keeperGone := false, false
		if time.Since(checked) >= asleep {
			checked = time.Now()
			beside.Go(func() {
				if !s.knows(life, number) {
					elsewhere = true
					cancel()
				}
			})
			beside.Go(func() { keeperGone = s.lostKeeper(life) })
		}
		beside.Go(func() { s.pollMissed(ctx, l) })
		err := s.hear(ctx, conn, l, l.Waiting(), asleep, false)
		cancel()
		beside.Wait()
		if keeperGone {
			s.keep(nil)
		}
		switch {
		case errors.Is(err, errKeeper):
			s.keep(conn)
			l.Listens(0) // until it listens on another
			return err
		case elsewhere:
			return errors.New("the statements go to another server now")
		case err != nil && !among(interruptions, err):
			return err
		}
	}
}

// knows wakes this connection by way of a statement; it returns false when that was answered, and reached no such connection.
func (s *server) knows(ctx context.Context, number int64) bool {
	ctx, cancel := context.WithTimeout(ctx, sqlqueue.Brief)
	defer cancel()
	var woken int
	_, err := s.one(ctx, s.call("try_ring", number), &woken)
	return err != nil || woken != 0
}

// lostKeeper asks the server on the keeper's connection; it returns true if there is no answer. The statement may not end with the
// listening one: the client library closes a connection whose ping is cancelled.
func (s *server) lostKeeper(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, sqlqueue.Brief)
	defer cancel()
	return s.keeper != nil && s.keeper.PingContext(ctx) != nil
}

// pollMissed polls for claims that wait. A server may forget a KILL QUERY that comes before the statement sleeps: a claim
// that was granted its name by then would be told only when the statement ends.
func (s *server) pollMissed(ctx context.Context, l *sqlqueue.Listener) {
	sent := time.Now()
	for _, d := range pollAfter {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(sent.Add(d))):
		}
		if len(l.Waiting()) > 0 {
			s.Poll(ctx, l)
		}
	}
}

// connect returns a connection that can be woken by a number, which is that of a named lock that it has. If there is no keeper it
// makes one first.
func (s *server) connect(ctx context.Context) (_ *sql.Conn, number int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, sqlqueue.Fresh)
	defer cancel()
	conn, err := s.listen.Conn(ctx)
	pool, apart := s.listen.Stats(), s.listen != s.db
	full := pool.MaxOpenConnections > 0 && pool.InUse >= pool.MaxOpenConnections
	if err != nil {
		if full && apart && errors.Is(err, context.DeadlineExceeded) {
			err = errFull
		}
		return nil, 0, err
	}
	if full && !apart { // it may be for good, and this connection is kept from others meanwhile
		ctx, cancel = context.WithTimeout(ctx, sqlqueue.Brief)
		defer cancel()
		defer func() {
			if err != nil && ctx.Err() != nil {
				err = errFull
			}
		}()
	}
	number = rand.Int64N(math.MaxInt64) + 1
	var locked, keeper sql.NullInt64
	var woken int
	lock := fmt.Sprintf("select get_lock('locker.%d', 0), get_lock('locker.asleep', 0)", number)
	err = conn.QueryRowContext(ctx, lock).Scan(&locked, &keeper)
	if err == nil && keeper.Int64 == 1 {
		s.keep(conn)
		if full && apart { // only Lockers have connections of that pool, and give none back
			return nil, 0, errFull
		}
		return s.connect(ctx)
	}
	if err == nil {
		_, err = s.one(ctx, s.call("try_ring", number), &woken)
	}
	if err == nil && (woken != 1 || locked.Int64 != 1) {
		err = fmt.Errorf("%w: the server does not permit to wake this connection, or it leads to another server", sqlqueue.ErrCannotListen)
	}
	if err != nil {
		discard(conn)
		return nil, 0, err
	}
	return conn, number, nil
}

// Poll asks what is new of those who wait, and tells them.
func (s *server) Poll(ctx context.Context, l *sqlqueue.Listener) {
	_, _ = s.request(ctx, func(ctx context.Context, conn *sql.Conn) error {
		return s.hear(ctx, conn, l, l.Waiting(), 0, true)
	}) // those who wait look by themselves, too
}

// hear asks what is new of the claims that wait, see hear in schema.sql, and tells them. The server answers
// "granted id token spare since" or "look id" for each of which there is something, and a comma. It returns errKeeper if the
// connection is the keeper now.
func (s *server) hear(ctx context.Context, conn *sql.Conn, l *sqlqueue.Listener, waiting map[string]bool, sleep time.Duration, alone bool) error {
	var list strings.Builder
	for id, queued := range waiting {
		list.WriteString(id)
		if queued {
			list.WriteString("01")
		} else {
			list.WriteString("00")
		}
	}
	var answer string
	if err := conn.QueryRowContext(ctx, s.call("hear", id(list.String()), int(sleep.Seconds()), alone)).Scan(&answer); err != nil {
		return err
	}
	if answer == "keeper" {
		return errKeeper
	}
	for one := range strings.SplitSeq(answer, ",") {
		var what, id string
		var e sqlqueue.Event
		if n, _ := fmt.Sscan(one, &what, &id, &e.Token, &e.Spare, &e.Now); n < 2 {
			continue
		}
		e.Granted = what == "granted"
		l.Tell(id, e)
	}
	return nil
}

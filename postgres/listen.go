package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed80cd6120/locker/driver"
)

const (
	// silent is how long the server may say nothing before it is asked whether it is there.
	silent = 30 * time.Second
	// pollEvery is how often the waiters ask where LISTEN does not work.
	pollEvery = 250 * time.Millisecond
)

// event is news for a claim that waits. The zero value tells it to look, which is to ask for the
// name again: the connection was interrupted, its row was removed.
type event struct {
	granted      bool // the server made the claim the holder at now by its clock, in microseconds
	token, spare int64
	now          int64
	received     driver.Instant
	in           time.Duration // if not zero, when to look
}

// listener tells the waiting claims of one Locker news: from the connection on which it listens or, where
// that cannot be, by asking. Until the connection is there claims are in the queue without it; then they
// are told to look, and are known as some to whom somebody listens from then on.
type listener struct {
	b      *backend
	number int64 // of its channel, and of the advisory lock by which the server knows that it lives

	mu      sync.Mutex
	claims  map[string]*claim // those that wait
	running bool
	up      bool  // the server will tell
	refused error // why that cannot be
}

var errPooler = errors.New("a pooler is in between")

// join has c told news by tell, which must not block, until leave.
func (l *listener) join(c *claim, tell func(event)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.tell = tell
	l.claims[c.ID] = c
}

func (l *listener) leave(c *claim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.claims, c.ID)
}

// start begins to listen, unless that has begun.
func (l *listener) start() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.running {
		l.running = true
		l.b.working.Go(l.run)
	}
}

// channel returns the number of the channel on which claims are told news, 0 if there is none by now, and an
// error if there cannot be one.
func (l *listener) channel() (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.up {
		return l.number, nil
	}
	return 0, l.refused
}

// change notes whether the server will tell, or why it cannot, and has all that wait look.
func (l *listener) change(up bool, refused error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.up, l.refused = up, refused
	for _, c := range l.claims {
		c.tell(event{})
	}
}

// run listens until the Locker is closed, on one connection after the other, or asks.
func (l *listener) run() {
	every := l.b.settings.poll
	for pause := minPause; every == 0 && l.b.life.Err() == nil; pause = min(2*pause, maxPause) {
		began := time.Now()
		err := l.listen()
		switch {
		case errors.Is(err, errPooler):
			every = pollEvery
			continue
		case isTransient(err):
			l.change(false, nil)
		default:
			l.change(false, explain(fmt.Errorf("listen: %w", err)))
		}
		if time.Since(began) > maxPause {
			pause = minPause
		}
		l.sleep(pause)
	}
	for l.b.life.Err() == nil {
		l.sleep(every)
		l.poll()
	}
}

func (l *listener) sleep(d time.Duration) {
	select {
	case <-time.After(d):
	case <-l.b.life.Done():
	}
}

// listen takes what the server says until there is an error.
func (l *listener) listen() error {
	conn, err := l.connect()
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	l.change(true, nil)
	for {
		ctx, cancel := context.WithTimeout(l.b.life, silent)
		news, err := conn.WaitForNotification(ctx)
		cancel()
		switch {
		case err == nil:
			l.hear(news.Payload)
		case conn.IsClosed() || l.b.life.Err() != nil:
			return err
		default:
			ctx, cancel := context.WithTimeout(l.b.life, fresh)
			err := conn.Ping(ctx)
			cancel()
			if err != nil {
				return err
			}
		}
	}
}

// connect returns a connection on which the server tells news. It holds the advisory lock by which the server
// knows that somebody listens.
func (l *listener) connect() (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(l.b.life, fresh)
	defer cancel()
	config := l.b.settings.listen
	if config == nil {
		pool := l.b.pool.Config()
		config = pool.ConnConfig
		if pool.BeforeConnect != nil {
			if err := pool.BeforeConnect(ctx, config); err != nil {
				return nil, err
			}
		}
	}
	config = config.Copy()
	config.OnNotification = nil // it would take them away
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	if err := l.subscribe(ctx, conn); err != nil {
		_ = conn.Close(ctx)
		return nil, err
	}
	return conn, nil
}

func (l *listener) subscribe(ctx context.Context, conn *pgx.Conn) error {
	var pid uint32
	if err := conn.QueryRow(ctx, "select pg_backend_pid()", simple).Scan(&pid); err != nil {
		return err
	}
	if pid != conn.PgConn().PID() {
		return errPooler
	}
	query := fmt.Sprintf(`listen "locker_%d"; select pg_advisory_lock_shared(%d)`, l.number, l.number)
	_, err := conn.PgConn().Exec(ctx, query).ReadAll()
	return err
}

// hear takes a message, see tell in schema.sql: "look <id> <milliseconds>" or "granted <id> <token> <spare>
// <server time>".
func (l *listener) hear(text string) {
	words := strings.Fields(text)
	if len(words) < 3 {
		return
	}
	number := func(i int) int64 {
		x, _ := strconv.ParseInt(words[i], 10, 64)
		return x
	}
	e := event{received: l.b.clock.Now()}
	switch {
	case words[0] == "look":
		e.in = time.Duration(number(2)) * time.Millisecond
	case words[0] == "granted" && len(words) == 5:
		e.granted, e.token, e.spare, e.now = true, number(2), number(3), number(4)
	default:
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.claims[strings.ReplaceAll(words[1], "-", "")]; c != nil {
		c.tell(e)
	}
}

// poll asks which of those who wait ought to look, and tells them.
func (l *listener) poll() {
	var ids []string
	l.mu.Lock()
	for id := range l.claims {
		ids = append(ids, id)
	}
	l.mu.Unlock()
	if len(ids) == 0 {
		return
	}
	var due []string
	_, err := l.b.call(l.b.life, func(ctx context.Context, conn *pgxpool.Conn) error {
		rows, err := conn.Query(ctx, l.b.statements.due, simple, ids)
		if err == nil {
			due, err = pgx.CollectRows(rows, pgx.RowTo[string])
		}
		return err
	})
	if err != nil {
		return // those who wait look by themselves, too
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range due {
		if c := l.claims[id]; c != nil {
			c.tell(event{})
		}
	}
}

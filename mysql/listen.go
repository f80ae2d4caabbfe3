package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

const (
	// asleep is how long the statement sleeps in which a Locker is told news.
	asleep = 20 * time.Second
	// pollEvery is how often the waiters ask where they cannot be woken, and pollFor how long, until another try to
	// listen.
	pollEvery = 250 * time.Millisecond
	pollFor   = time.Minute
)

// event is news for a claim that waits. The zero value tells it to look, which is to ask for the name again: the
// connection was interrupted, its row was removed, a time that it was told is no longer true.
type event struct {
	granted      bool // the server made the claim the holder at now by its clock, in microseconds
	token, spare int64
	now          int64
	received     driver.Instant
}

// listener tells the waiting claims of one Locker news: from the connection on which it listens or, where that
// cannot be, by asking. Until the connection is there claims are in the queue without it; then they are told to
// look, and are known as some that can be woken from then on.
type listener struct {
	b *backend

	mu      sync.Mutex
	claims  map[string]*claim // those that wait
	running bool
	number  sql.NullInt64 // by which the connection is found and woken
}

// nobody is the number of a claim to which nobody listens.
var nobody sql.NullInt64

var errCannotWake = errors.New("the server does not permit to wake this connection, or it leads to another server")

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

// asks notes that c asks the server, and returns the number by which it can be woken.
func (l *listener) asks(c *claim) sql.NullInt64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.told = false
	return l.number
}

// queued notes that the server has said that c waits, and begins to listen, unless that has begun. A claim that was
// not known as one to be woken asks again if it can be now.
func (l *listener) queued(c *claim, asked sql.NullInt64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.queued = true
	if asked != l.number {
		l.tell(c, event{})
	}
	if !l.running {
		l.running = true
		l.b.working.Go(l.run)
	}
}

// tell tells a claim news, once for each time it asks. The caller has l.mu.
func (l *listener) tell(c *claim, e event) {
	c.told = true
	c.tell(e)
}

// change notes by which number the Locker is woken, and has all that wait look.
func (l *listener) change(number sql.NullInt64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.number = number
	for _, c := range l.claims {
		l.tell(c, event{})
	}
}

// run listens until the Locker is closed, on one connection after the other, or asks.
func (l *listener) run() {
	for pause := minPause; l.b.life.Err() == nil; pause = min(2*pause, maxPause) {
		if every := l.b.settings.poll; every > 0 {
			l.poll(every, l.b.life)
			return
		}
		began := time.Now()
		err := l.listen()
		l.change(nobody)
		if errors.Is(err, errCannotWake) || !isTransient(err) {
			ctx, cancel := context.WithTimeout(l.b.life, pollFor)
			l.poll(pollEvery, ctx)
			cancel()
		}
		if time.Since(began) > maxPause {
			pause = minPause
		}
		sleep(l.b.life, pause)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// poll asks every so often what is new, until ctx ends.
func (l *listener) poll(every time.Duration, ctx context.Context) {
	for ; ctx.Err() == nil; sleep(ctx, every) {
		if list := l.waiting(); list != "" {
			_, _ = l.b.request(ctx, func(ctx context.Context, conn *sql.Conn) error {
				return l.hear(ctx, conn, list, 0, true)
			}) // those who wait look by themselves, too
		}
	}
}

// listen keeps a connection and takes what the server says there, until there is an error. The connection is not
// used for anything else afterwards: it may have been woken just now.
func (l *listener) listen() error {
	ctx, cancel := context.WithTimeout(l.b.life, fresh)
	defer cancel()
	conn, err := l.b.settings.listen.Conn(ctx)
	if err != nil {
		return err
	}
	defer discard(conn)
	number := sql.NullInt64{Int64: rand.Int64(), Valid: true}
	var locked sql.NullInt64
	lock := fmt.Sprintf("select get_lock('locker.%d', 0)", number.Int64)
	if err := conn.QueryRowContext(ctx, lock).Scan(&locked); err != nil {
		return err
	}
	woken, _, err := l.b.number(ctx, "try_ring", number.Int64)
	switch {
	case err != nil:
		return err
	case woken != 1 || locked.Int64 != 1:
		return errCannotWake
	}
	l.change(number)
	for {
		ctx, cancel := context.WithTimeout(l.b.life, asleep+fresh)
		err := l.hear(ctx, conn, l.waiting(), int(asleep.Seconds()), false)
		cancel()
		if err != nil && !among(interruptions, err) {
			return err
		}
	}
}

// waiting returns the claims that wait and do not know yet that there is news, as hear in schema.sql takes them.
func (l *listener) waiting() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list strings.Builder
	for id, c := range l.claims {
		switch {
		case c.told:
		case c.queued:
			list.WriteString(id + "01")
		default:
			list.WriteString(id + "00")
		}
	}
	return list.String()
}

// hear asks what is new of the claims in list and tells them. The server answers "granted id token spare since" or
// "look id" for each of which there is something, and a comma.
func (l *listener) hear(ctx context.Context, conn *sql.Conn, list string, seconds int, alone bool) error {
	var text string
	if err := conn.QueryRowContext(ctx, l.b.call("hear", id(list), seconds, alone)).Scan(&text); err != nil {
		return err
	}
	received := l.b.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for one := range strings.SplitSeq(text, ",") {
		var what, id string
		e := event{received: received}
		if n, _ := fmt.Sscan(one, &what, &id, &e.token, &e.spare, &e.now); n < 2 {
			continue
		}
		e.granted = what == "granted"
		if c := l.claims[id]; c != nil {
			l.tell(c, e)
		}
	}
	return nil
}

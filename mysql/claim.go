package mysql

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// attempts is how many times in a row a request may meet a broken connection or a deadlock.
const attempts = 5

// claim is what the driver knows of a claim.
type claim struct {
	*driver.Claim
	lateUntil int64 // until when, by the server's time, a request that had no answer may have an effect, or 0
	touched   bool  // the server may know of it
	unsure    bool  // a request to release it had no answer

	// While it waits, guarded by listener.mu:
	tell   func(event) // called with news
	queued bool        // the server has said that it is in the queue
	told   bool        // of something, since it asked last
}

func at(c *driver.Claim) *claim { return c.State.(*claim) }

// statement is something that is sent on a connection of the pool.
type statement func(ctx context.Context, conn *sql.Conn) error

// request sends a statement, and again if the connection was found broken or there was a deadlock. It returns soon
// after ctx has ended. lost says that the server may have heard of it without having answered. Every statement can
// bear to be carried out more than once.
func (b *backend) request(ctx context.Context, do statement) (lost bool, err error) {
	for range attempts {
		err = b.once(ctx, func(ctx context.Context, conn *sql.Conn) error {
			if err := b.prepare(ctx, conn); err != nil {
				return notSent{err}
			}
			err := do(ctx, conn)
			if undefined(err) {
				b.ready.Store(false) // dropped, or a server that never had it
			}
			return err
		})
		lost = lost || err != nil && !ineffective(err)
		again := broken(err) || undefined(err) || among(conflicts, err) || errors.Is(err, errCreated)
		if !again || ctx.Err() != nil || errors.Is(err, errNoAnswer) {
			break
		}
	}
	if err != nil {
		err = explain(err)
	}
	return lost, err
}

var errNoAnswer = errors.New("no answer in time")

// notSent is an error from before a request was sent.
type notSent struct{ error }

func (e notSent) Unwrap() error { return e.error }

// once sends a statement on one connection. It returns errNoAnswer, rather than that a context has ended, if it was
// not ctx that did. After an error the connection is closed, because a transaction may be open in it, with rows that
// it has locked.
func (b *backend) once(ctx context.Context, do statement) error {
	limited, cancel := context.WithTimeout(ctx, fresh)
	defer cancel()
	conn, err := b.db.Conn(limited)
	if err != nil {
		err = notSent{fmt.Errorf("connect: %w", err)}
	} else if err = do(limited, conn); err != nil {
		discard(conn)
	} else {
		_ = conn.Close()
	}
	if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		sent := !errors.As(err, new(notSent))
		err = fmt.Errorf("%w: %v", errNoAnswer, err)
		if !sent {
			err = notSent{err}
		}
	}
	return err
}

// discard closes a connection rather than give it back to the pool.
func discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return sqldriver.ErrBadConn })
	_ = conn.Close()
}

// answer is what the server said to a request to acquire; see acquire in schema.sql.
type answer struct {
	sent     driver.Instant // before the request was
	now      int64          // the server's time in microseconds
	granted  bool
	token    int64
	spare    int64
	firstEnd time.Duration // no holding ends before, unless by a release
	first    bool          // no other waits before it
}

var errGivenUp = errors.New("the claim has been given up")

// ask asks for the name; a claim that waits joins the queue if there is no room. listener is the number by which
// somebody is woken when there is news of it.
func (b *backend) ask(ctx context.Context, c *claim, listener sql.NullInt64) (a answer, err error) {
	const tries = 5
	for range tries {
		var state string
		lost, err := b.request(ctx, func(ctx context.Context, conn *sql.Conn) error {
			a = answer{sent: b.clock.Now()}
			latest := b.time.Now() + fresh.Microseconds()
			var token, end sql.NullInt64
			err := conn.QueryRowContext(ctx, b.call("acquire", c.Name, id(c.ID), c.Weight, c.Limit, c.Spare, millis(c.TTL),
				c.Owner, latest, c.Wait, listener)).Scan(&state, &a.now, &token, &a.spare, &end, &a.first)
			if err != nil && !ineffective(err) {
				c.lateUntil = max(c.lateUntil, latest)
			}
			a.token, a.firstEnd = token.Int64, time.Duration(end.Int64)*time.Millisecond
			return err
		})
		c.touched = c.touched || lost
		if err != nil {
			return a, err
		}
		b.time.Learn(a.now, a.sent)
		switch state {
		case "granted":
			a.granted, c.touched = true, true
			return a, nil
		case "waits":
			c.touched = true
			return a, nil
		case "taken":
			return a, nil
		case "given up":
			return a, errGivenUp
		}
	}
	return a, fmt.Errorf("the request came late %d times: the server's time moves", tries)
}

func millis(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

// number calls a procedure that answers one number.
func (b *backend) number(ctx context.Context, procedure string, args ...any) (n int, lost bool, err error) {
	lost, err = b.request(ctx, func(ctx context.Context, conn *sql.Conn) error {
		return conn.QueryRowContext(ctx, b.call(procedure, args...)).Scan(&n)
	})
	return n, lost, err
}

// Release implements [driver.Driver].
func (b *backend) Release(ctx context.Context, c *driver.Claim) error {
	return b.release(ctx, at(c), 0)
}

// Linger implements [driver.Lingerer].
func (b *backend) Linger(ctx context.Context, c *driver.Claim, d time.Duration) error {
	return b.release(ctx, at(c), d)
}

func (b *backend) release(ctx context.Context, c *claim, d time.Duration) error {
	answer, lost, err := b.number(ctx, "release", c.Name, id(c.ID), millis(d), c.lateUntil, false)
	c.unsure = c.unsure || lost
	switch {
	case err != nil:
		return err
	case answer != 1 && !c.unsure:
		return driver.ErrGone
	}
	return nil
}

// Abandon implements [driver.Driver].
func (b *backend) Abandon(ctx context.Context, dc *driver.Claim) error {
	c := at(dc)
	if !c.touched {
		return nil
	}
	_, _, err := b.number(ctx, "release", c.Name, id(c.ID), 0, c.lateUntil, false)
	return err
}

// Lighten implements [driver.Weigher].
func (b *backend) Lighten(ctx context.Context, c *driver.Claim, weight int32) error {
	held, _, err := b.number(ctx, "lighten", c.Name, id(c.ID), weight)
	if err == nil && held == 0 {
		err = driver.ErrGone
	}
	return err
}

// Renew implements [driver.Driver]: one statement for all.
func (b *backend) Renew(ctx context.Context, claims []*driver.Claim, report func(*driver.Claim, driver.Instant, error)) {
	var list strings.Builder
	for _, c := range claims {
		ttl := int64(0)
		if !c.Lease {
			ttl = millis(c.TTL)
		}
		fmt.Fprintf(&list, "%s%016x", c.ID, ttl)
	}
	type holding struct {
		left   time.Duration
		wanted bool
	}
	var held map[string]holding
	var sent driver.Instant
	_, err := b.request(ctx, func(ctx context.Context, conn *sql.Conn) error {
		held, sent = make(map[string]holding), b.clock.Now()
		var text string
		err := conn.QueryRowContext(ctx, b.call("renew", id(list.String()))).Scan(&text)
		for one := range strings.SplitSeq(text, ",") {
			var id string
			var left int64
			var wanted int
			if n, _ := fmt.Sscan(one, &id, &left, &wanted); n == 3 {
				held[id] = holding{time.Duration(left) * time.Microsecond, wanted > 0}
			}
		}
		return err
	})
	for _, c := range claims {
		h, ok := held[c.ID]
		switch {
		case err != nil:
			report(c, 0, err)
		case !ok:
			report(c, 0, driver.ErrGone)
		default:
			report(c, sent.Add(min(h.left, c.TTL)), nil)
			if h.wanted && c.Wanted != nil {
				c.Wanted()
			}
		}
	}
}

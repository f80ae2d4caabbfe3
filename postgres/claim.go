package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed80cd6120/locker/driver"
)

// attempts is how many connections in a row may be found broken.
const attempts = 3

// simple is how every statement is sent: in one message, so that the server ends the transaction by itself. In the
// extended protocol it waits for one more, meanwhile the name would be locked, and the network may break in between.
// It is also what poolers in transaction mode need, and one round trip.
const simple = pgx.QueryExecModeSimpleProtocol

// claim is what the driver knows of a claim.
type claim struct {
	*driver.Claim
	lateUntil int64       // until when, by the server's time, a request that had no answer may have an effect, or 0
	touched   bool        // the server may know of it
	unsure    bool        // a request to release it had no answer
	tell      func(event) // called with news while the claim waits; guarded by listener.mu
}

func at(c *driver.Claim) *claim { return c.State.(*claim) }

// request is something that is sent on a connection of the pool.
type request func(ctx context.Context, conn *pgxpool.Conn) error

// call sends a request, and again if the connection was found broken. It returns soon after ctx has ended.
// lost says that the server may have heard of it without having answered. Every statement can bear to be
// carried out more than once.
func (b *backend) call(ctx context.Context, do request) (lost bool, err error) {
	for range attempts {
		err = b.once(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
			if err := b.prepare(ctx, conn); err != nil {
				return err
			}
			err := do(ctx, conn)
			if undefined(err) {
				b.ready.Store(false) // dropped, or a server that never had it
			}
			lost = lost || err != nil && !ineffective(err)
			return err
		})
		if err == nil || ctx.Err() != nil || errors.Is(err, errNoAnswer) || code(err) != "" && !undefined(err) {
			break
		}
	}
	if err != nil {
		err = explain(err)
	}
	return lost, err
}

var errNoAnswer = errors.New("no answer in time")

// once sends a request on one connection. It returns errNoAnswer, rather than that a context has ended, if it was
// not ctx that did.
func (b *backend) once(ctx context.Context, do request) error {
	limited, cancel := context.WithTimeout(ctx, fresh)
	defer cancel()
	conn, err := b.pool.Acquire(limited)
	if err != nil {
		err = fmt.Errorf("connect: %w", err)
	} else {
		err = do(limited, conn)
		conn.Release()
	}
	if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %v", errNoAnswer, err)
	}
	return err
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

// ask asks for the name; a claim that waits joins the queue if there is no room. listener is the number of the
// channel on which it is told news, 0 if it is not.
func (b *backend) ask(ctx context.Context, c *claim, listener int64) (a answer, err error) {
	const tries = 5
	var channel *int64
	if listener != 0 {
		channel = &listener
	}
	for range tries {
		var state string
		lost, err := b.call(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
			a = answer{sent: b.clock.Now()}
			latest := b.time.Now() + fresh.Microseconds()
			var token, spare, end *int64
			var first *bool
			err := conn.QueryRow(ctx, b.statements.acquire, simple,
				[]byte(c.Name), c.ID, c.Weight, c.Limit, c.Spare, millis(c.TTL), []byte(c.Owner), latest, c.Wait, channel).
				Scan(&state, &a.now, &token, &spare, &end, &first)
			if err != nil && !ineffective(err) {
				c.lateUntil = max(c.lateUntil, latest)
			}
			a.token, a.spare, a.first = value(token), value(spare), value(first)
			a.firstEnd = time.Duration(value(end)) * time.Millisecond
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

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

func millis(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

// end removes what there is of a claim, or keeps the name taken for d more. See release in schema.sql.
func (b *backend) end(ctx context.Context, c *claim, d time.Duration) (answer int, lost bool, err error) {
	lost, err = b.call(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, b.statements.release, simple, []byte(c.Name), c.ID, millis(d), c.lateUntil).Scan(&answer)
	})
	return answer, lost, err
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
	answer, lost, err := b.end(ctx, c, d)
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
func (b *backend) Abandon(ctx context.Context, c *driver.Claim) error {
	if !at(c).touched {
		return nil
	}
	_, _, err := b.end(ctx, at(c), 0)
	return err
}

// Lighten implements [driver.Weigher].
func (b *backend) Lighten(ctx context.Context, c *driver.Claim, weight int32) error {
	var held bool
	_, err := b.call(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, b.statements.lighten, simple, []byte(c.Name), c.ID, weight).Scan(&held)
	})
	if err == nil && !held {
		err = driver.ErrGone
	}
	return err
}

// Renew implements [driver.Driver]: one statement for all.
func (b *backend) Renew(ctx context.Context, claims []*driver.Claim, report func(*driver.Claim, driver.Instant, error)) {
	ids, ttls := make([]string, len(claims)), make([]int64, len(claims))
	for i, c := range claims {
		ids[i] = c.ID
		if !c.Lease {
			ttls[i] = millis(c.TTL)
		}
	}
	type holding struct {
		left   time.Duration
		wanted bool
	}
	var held map[string]holding
	var sent driver.Instant
	_, err := b.call(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		held, sent = make(map[string]holding), b.clock.Now()
		rows, err := conn.Query(ctx, b.statements.renew, simple, ids, ttls)
		if err != nil {
			return err
		}
		var id string
		var left int64
		var wanted bool
		_, err = pgx.ForEachRow(rows, []any{&id, &left, &wanted}, func() error {
			held[id] = holding{time.Duration(left) * time.Microsecond, wanted}
			return nil
		})
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

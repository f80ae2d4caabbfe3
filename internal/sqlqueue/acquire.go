package sqlqueue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/look"
	"github.com/seed80cd6120/locker/internal/servertime"
)

var errGivenUp = errors.New("the claim has been given up")

// Acquire implements [driver.Driver]. A claim that waits joins the queue in the same request that finds the
// name taken.
func (q *Queue) Acquire(ctx context.Context, dc *driver.Claim) (driver.Grant, error) {
	q.sweep()
	c := &Claim{Claim: dc}
	dc.State = c
	if c.Wait {
		return q.wait(ctx, c)
	}
	a, err := q.ask(ctx, c, 0)
	switch {
	case err != nil:
		return driver.Grant{}, err
	case a.State == "granted":
		return grant(c, a.Token, a.Spare, a.Sent), nil
	case c.LateUntil > 0:
		// An earlier sending of the request may still take the name.
		if err := q.Abandon(ctx, dc); err != nil {
			return driver.Grant{}, err
		}
	}
	return driver.Grant{}, driver.ErrTaken
}

// ask asks for the name until the server has said something of it.
func (q *Queue) ask(ctx context.Context, c *Claim, listener int64) (Answer, error) {
	const tries = 5
	for range tries {
		var latest int64
		a, lost, err := q.server.Acquire(ctx, c, listener, func() (driver.Instant, int64) {
			this := q.time.Now() + Fresh.Microseconds()
			latest = max(latest, this)
			return q.clock.Now(), this
		})
		if lost {
			c.touched, c.LateUntil = true, max(c.LateUntil, latest)
		}
		if err != nil {
			return a, err
		}
		q.time.Learn(a.Now, a.Sent)
		switch a.State {
		case "granted", "waits":
			c.touched = true
			return a, nil
		case "taken":
			return a, nil
		case "given up":
			return a, errGivenUp
		}
	}
	return Answer{}, fmt.Errorf("the request came late %d times: the server's time moves", tries)
}

// wait asks, and then looks whenever something may have changed, until the claim is granted.
func (q *Queue) wait(ctx context.Context, c *Claim) (driver.Grant, error) {
	granted, hints := make(chan Event, 1), make(chan Event, 1)
	q.news.join(c, func(e Event) {
		if e.Granted {
			offer(granted, e)
		} else {
			offer(hints, e)
		}
	})
	defer q.news.leave(c)
	timer := time.NewTimer(look.Fallback)
	defer timer.Stop()
	var failed error // what is in the way for the time being
	var pause driver.Backoff
	for {
		number, refused := q.news.asks(c)
		a, err := q.ask(ctx, c, number)
		switch {
		case err == nil && a.State == "granted":
			return grant(c, a.Token, a.Spare, a.Sent), nil
		case err == nil && refused != nil:
			return driver.Grant{}, refused
		case err == nil:
			failed, pause = nil, driver.Backoff{}
			timer.Reset(look.In(max(a.FirstEnd, 0), a.First))
			q.news.waits(c, number)
		case ctx.Err() != nil || !q.server.Transient(err):
			return driver.Grant{}, because(ctx, err, failed)
		default:
			failed = err
			timer.Reset(pause.Next())
		}
		select {
		case e := <-granted:
			if g, ok := q.told(c, a, e); ok && err == nil {
				return g, nil
			}
		case <-hints:
		case <-timer.C:
		case <-ctx.Done():
			return driver.Grant{}, because(ctx, ctx.Err(), failed)
		}
	}
}

// offer sends e unless there is something unread.
func offer(ch chan Event, e Event) {
	select {
	case ch <- e:
	default:
	}
}

// because returns why a wait has ended with err: what was in the way, if ctx has ended. The core adds
// that it has.
func because(ctx context.Context, err, failed error) error {
	if ctx.Err() != nil && failed != nil {
		return failed
	}
	return err
}

// told makes a grant of the news e for a waiter whose last answer from the server was a; not ok means that the
// waiter had better ask.
func (q *Queue) told(c *Claim, a Answer, e Event) (driver.Grant, bool) {
	began, ok := servertime.Began(a.Sent, a.Now, e.Now, e.Received)
	g := grant(c, e.Token, e.Spare, began)
	return g, ok && g.Until.Sub(q.clock.Now()) > c.TTL/2
}

// grant is the answer to the core: the server began to count after began.
func grant(c *Claim, token, spare int64, began driver.Instant) driver.Grant {
	return driver.Grant{Token: token, Spare: spare, Until: began.Add(c.TTL)}
}

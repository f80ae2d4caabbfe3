package postgres

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/look"
)

const (
	// fresh is for how long a request that takes something is meant, and how long an answer is waited for. The
	// network may keep a request for longer; the server refuses it then.
	fresh = 5 * time.Second
	// minPause and maxPause are the times between attempts at something that fails.
	minPause = 50 * time.Millisecond
	maxPause = time.Second
)

// Acquire implements [driver.Driver]. A claim that waits joins the queue in the same request that finds the
// name taken.
func (b *backend) Acquire(ctx context.Context, dc *driver.Claim) (driver.Grant, error) {
	b.sweep()
	c := &claim{Claim: dc}
	dc.State = c
	if c.Wait {
		return b.wait(ctx, c)
	}
	a, err := b.ask(ctx, c, 0)
	switch {
	case err != nil:
		return driver.Grant{}, err
	case a.granted:
		return grant(c, a.token, a.spare, a.sent), nil
	case c.lateUntil > 0:
		// An earlier sending of the request may still take the name.
		if err := b.Abandon(ctx, dc); err != nil {
			return driver.Grant{}, err
		}
	}
	return driver.Grant{}, driver.ErrTaken
}

// wait asks, and then looks whenever something may have changed, until the claim is granted.
func (b *backend) wait(ctx context.Context, c *claim) (driver.Grant, error) {
	granted, hints := make(chan event, 1), make(chan time.Duration, 1)
	b.listener.join(c, func(e event) {
		if e.granted {
			offer(granted, e)
		} else {
			offer(hints, e.in)
		}
	})
	defer b.listener.leave(c)
	timer := time.NewTimer(look.Fallback)
	defer timer.Stop()
	var failed error // what is in the way for the time being
	pause := minPause
	for {
		number, refused := b.listener.channel()
		a, err := b.ask(ctx, c, number)
		switch {
		case err == nil && a.granted:
			return grant(c, a.token, a.spare, a.sent), nil
		case err == nil && refused != nil:
			return driver.Grant{}, refused
		case err == nil:
			failed, pause = nil, minPause
			timer.Reset(look.In(max(a.firstEnd, 0), a.first))
			b.listener.start()
		case ctx.Err() != nil || !isTransient(err):
			return driver.Grant{}, because(ctx, err, failed)
		default:
			failed = err
			timer.Reset(pause/2 + rand.N(pause/2))
			pause = min(2*pause, maxPause)
		}
		for asleep := true; asleep; {
			asleep = false
			select {
			case e := <-granted:
				if g, ok := b.told(c, a, e); ok && err == nil {
					return g, nil
				}
			case in := <-hints:
				if asleep = in > 0; asleep {
					timer.Reset(in + look.Jitter(a.first))
				}
			case <-timer.C:
			case <-ctx.Done():
				return driver.Grant{}, because(ctx, ctx.Err(), failed)
			}
		}
	}
}

// offer sends v unless there is something unread.
func offer[T any](ch chan T, v T) {
	select {
	case ch <- v:
	default:
	}
}

// told makes a grant of the news e for a waiter whose last answer from the server was a; not ok
// means that the waiter had better ask.
//
// The server began to count when it sent the news: no earlier than the last request, plus the time
// that the server's clock has measured since, and no later than the news came. News from before the
// last answer is about a holding that has come and gone.
func (b *backend) told(c *claim, a answer, e event) (driver.Grant, bool) {
	if e.now < a.now {
		return driver.Grant{}, false
	}
	began := a.sent.Add(time.Duration(e.now-a.now) * time.Microsecond)
	g := grant(c, e.token, e.spare, min(began, e.received))
	return g, g.Until.Sub(b.clock.Now()) > c.TTL/2
}

// grant is the answer to the core: the server began to count after began.
func grant(c *claim, token, spare int64, began driver.Instant) driver.Grant {
	return driver.Grant{Token: token, Spare: spare, Until: began.Add(c.TTL)}
}

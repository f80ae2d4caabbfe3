package redis

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/redisnode"
)

// fallback is how often a waiter looks at least, whatever it was told. The server keeps a queue
// three times as long of which no waiter has looked (PATIENCE in lib.lua).
const fallback = 20 * time.Second

// Acquire asks at once, without queueing. Only if the name is taken, and the claim is to wait, it
// subscribes, if that is not done already, and joins the queue.
func (b *backend) Acquire(ctx context.Context, claim *driver.Claim) (driver.Grant, error) {
	b.node.CheckEviction()
	c := b.node.Claim(claim)
	claim.State = c
	if c.Wait && b.node.Listening(c) {
		return b.wait(ctx, c, nil)
	}
	a, err := b.node.Acquire(ctx, c, false, 0)
	switch {
	case err == nil && a.Granted:
		return grant(c, a.Token, a.Spare, a.Sent), nil
	case c.Wait && (err == nil || redisnode.Transient(err)):
		return b.wait(ctx, c, err)
	case err != nil:
		return driver.Grant{}, err
	case c.Unanswered():
		// An earlier sending of the request may still take the name.
		if err := b.node.Abandon(ctx, c); err != nil {
			return driver.Grant{}, err
		}
	}
	return driver.Grant{}, driver.ErrTaken
}

// wait queues until the claim is granted. failed is what is in the way for the time being.
func (b *backend) wait(ctx context.Context, c *redisnode.Claim, failed error) (driver.Grant, error) {
	granted, look := make(chan redisnode.Event, 1), make(chan time.Duration, 1)
	b.node.Join(c, func(e redisnode.Event) {
		if e.Granted {
			offer(granted, e)
		} else {
			offer(look, e.In)
		}
	})
	defer b.node.Leave(c)
	timer := time.NewTimer(fallback)
	defer timer.Stop()
	pause := redisnode.MinPause
	for {
		if err := b.node.Ready(ctx, c); err != nil {
			return driver.Grant{}, because(ctx, err, failed)
		}
		a, err := b.node.Acquire(ctx, c, true, 0)
		switch {
		case err == nil && a.Granted:
			return grant(c, a.Token, a.Spare, a.Sent), nil
		case err == nil:
			failed, pause = nil, redisnode.MinPause
			timer.Reset(nextLook(a))
		case ctx.Err() != nil || !redisnode.Transient(err):
			return driver.Grant{}, because(ctx, err, failed)
		default:
			failed = err
			timer.Reset(pause/2 + rand.N(pause/2))
			pause = min(2*pause, redisnode.MaxPause)
		}
		for asleep := true; asleep; {
			asleep = false
			select {
			case e := <-granted:
				if g, ok := b.told(c, a, e); ok && err == nil {
					return g, nil
				}
			case in := <-look:
				if asleep = in > 0; asleep {
					timer.Reset(in + jitter(a.Ahead))
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

// nextLook returns when a waiter looks by itself: when the first holder's time is over, if it does
// not renew.
func nextLook(a redisnode.Answer) time.Duration {
	if a.Left < 0 || a.Left > fallback {
		return fallback + rand.N(fallback/4)
	}
	return a.Left + jitter(a.Ahead)
}

// jitter returns how long after the end of a holding a waiter looks. The first in the queue looks
// at once. The others leave it the time to, but within a second one of them stands in for it.
func jitter(ahead int64) time.Duration {
	if ahead == 0 {
		return 5*time.Millisecond + rand.N(20*time.Millisecond)
	}
	return 300*time.Millisecond + rand.N(500*time.Millisecond)
}

// told makes a grant of the news e for a waiter whose last answer from the server was a; not ok
// means that the waiter had better ask.
//
// The server began to count when it sent the news: no earlier than the last request, plus the time
// that the server's clock has measured since, and no later than the news came. News from before the
// last answer is about a holding that has come and gone.
func (b *backend) told(c *redisnode.Claim, a redisnode.Answer, e redisnode.Event) (driver.Grant, bool) {
	if e.Now < a.Now {
		return driver.Grant{}, false
	}
	began := a.Sent.Add(time.Duration(e.Now-a.Now) * time.Microsecond)
	g := grant(c, e.Token, e.Spare, min(began, e.Received))
	return g, g.Until.Sub(b.clock.Now()) > c.TTL/2
}

// grant is the answer to the core: the server began to count after began.
func grant(c *redisnode.Claim, token, spare int64, began driver.Instant) driver.Grant {
	return driver.Grant{Token: token, Spare: spare, Until: began.Add(c.TTL)}
}

// because returns why a wait has ended with err: what was in the way, if ctx has ended. The core adds
// that it has.
func because(ctx context.Context, err, failed error) error {
	if ctx.Err() != nil && failed != nil {
		return failed
	}
	return err
}

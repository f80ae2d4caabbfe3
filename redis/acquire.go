package redis

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/redisnode"
)

// Acquire asks at once, without queueing. Only if the name is taken, and the claim is to wait, it subscribes,
// if that is not done already, and joins the queue.
func (b *backend) Acquire(ctx context.Context, claim *driver.Claim) (driver.Grant, error) {
	b.CheckEviction()
	c := b.Claim(claim)
	claim.State = c
	if c.Wait && b.Listening(c) {
		return b.wait(ctx, c, nil)
	}
	a, err := b.Node.Acquire(ctx, c, redisnode.Try, 0)
	switch {
	case err == nil && a.Granted:
		return grant(c, a), nil
	case c.Wait && (err == nil || redisnode.Transient(err)):
		return b.wait(ctx, c, err)
	case err == nil && c.LateUntil() > 0:
		err = b.Node.Abandon(ctx, c) // an earlier sending of the request may still take the name
	}
	if err == nil {
		err = driver.ErrTaken
	}
	return driver.Grant{}, err
}

// wait queues until the claim is granted. failed is what is in the way for the time being.
func (b *backend) wait(ctx context.Context, c *redisnode.Claim, failed error) (driver.Grant, error) {
	news := make(chan redisnode.Event, 1)
	b.Join(c, func(e redisnode.Event) {
		select {
		case old := <-news:
			if old.Granted {
				e = old
			}
		default:
		}
		news <- e
	})
	defer b.Leave(c)
	timer := time.NewTimer(0)
	defer timer.Stop()
	pause := redisnode.MinPause
	for {
		var a redisnode.Answer
		err := ctx.Err()
		if err == nil {
			err = b.Ready(ctx, c)
		}
		if err == nil {
			a, err = b.Node.Acquire(ctx, c, redisnode.Queue, 0)
		}
		switch {
		case err == nil && a.Granted:
			return grant(c, a), nil
		case ctx.Err() != nil && failed != nil:
			return driver.Grant{}, failed // the core adds that ctx has ended
		case ctx.Err() != nil || err != nil && !redisnode.Transient(err):
			return driver.Grant{}, err
		case err != nil:
			failed = err
			timer.Reset(pause/2 + rand.N(pause/2))
			pause = min(2*pause, redisnode.MaxPause)
		default:
			failed, pause = nil, redisnode.MinPause
			timer.Reset(a.NextLook())
		}
		for asleep := true; asleep; {
			asleep = false
			select {
			case e := <-news:
				// If less than half of its time is left, to ask counts the time anew.
				if told, ok := a.After(e); ok && grant(c, told).Until.Sub(b.clock.Now()) > c.TTL/2 {
					return grant(c, told), nil
				}
				if asleep = e.In > 0; asleep {
					timer.Reset(e.In + 5*time.Millisecond)
				}
			case <-timer.C:
			case <-ctx.Done():
			}
		}
	}
}

// grant is the answer to the core.
func grant(c *redisnode.Claim, a redisnode.Answer) driver.Grant {
	return driver.Grant{Token: a.Token, Spare: a.Spare, Until: a.Sent.Add(c.TTL)}
}

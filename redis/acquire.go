package redis

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

const (
	// glance is how often a waiter looks at least, whatever it was told. The server
	// forgets a queue of which no waiter has looked three times as long (PATIENCE in
	// lua/head.lua).
	glance = 20 * time.Second
	// quiet is how long a subscription may be silent before a look tests it.
	quiet = 5 * time.Second
)

// Acquire asks at once, without queueing. Only if the name is taken, and the claim
// is to wait, it subscribes, if that is not done already, and joins the queue.
func (b *backend) Acquire(ctx context.Context, c *driver.Claim) (driver.Grant, error) {
	b.checkPolicy()
	t, _ := c.State.(*ticket)
	if t == nil {
		t = b.ticket(c)
	}
	if c.Wait && b.listener.listens(t.channel) {
		return b.wait(ctx, t, nil)
	}
	a, err := b.try(ctx, t)
	switch {
	case err == nil && a.token > 0:
		return t.grant(a.token, a.sent), nil
	case !c.Wait && err != nil:
		return driver.Grant{}, err
	case !c.Wait:
		return driver.Grant{}, driver.ErrTaken
	case err != nil && !mends(err):
		return driver.Grant{}, err
	}
	return b.wait(ctx, t, err)
}

// try asks without queueing. A connection that the pool did not know to be closed is
// no reason to fail.
func (b *backend) try(ctx context.Context, t *ticket) (a answer, err error) {
	for range 3 {
		if a, err = b.ask(ctx, t, dontWait); err == nil || !cut(err) || ctx.Err() != nil {
			break
		}
	}
	return a, err
}

// wait queues until the claim is granted. failed is what is in the way, for the
// time being.
func (b *backend) wait(ctx context.Context, t *ticket, failed error) (driver.Grant, error) {
	w := t.waiter
	if w == nil {
		w = b.listener.join(t.claim.ID, t.channel, t.clock)
	}
	t.waiter = nil
	defer b.listener.leave(w)
	pause := backoff(minPause)
	how := wait
	var since driver.Instant // when it was asked for the first answer
	ended, closing := driver.Ends(ctx)
	for {
		if why, err := b.listener.ready(ctx, w); err != nil {
			return driver.Grant{}, reason(err, telling(why, failed))
		}
		a, err := t.standing, error(nil)
		if t.standing = (answer{}); !a.queued {
			a, err = b.ask(ctx, t, how)
		}
		switch {
		case err == nil && a.token > 0:
			return t.grant(a.token, a.sent), nil
		case err == nil && !a.queued:
			return driver.Grant{}, errors.New("the server did not queue the request")
		case err == nil:
			failed, pause = nil, minPause
			if since == 0 {
				since = a.sent
			}
			if how == waitAndProbe {
				b.listener.probed(w, a)
			}
		case ctx.Err() != nil:
			return driver.Grant{}, reason(err, failed)
		case !mends(err):
			return driver.Grant{}, err
		default:
			failed = err
		}

		if err == nil {
			b.listener.remind(w, a.nextLook())
		} else {
			b.listener.remind(w, pause.next())
		}
		how = wait
		b.listener.attend(w, err == nil && ctx.Err() == nil)
		select {
		case h := <-w.granted:
			if grant, ok := b.handedOver(t, a, h); ok {
				waited := h.received.Sub(since)
				t.soon, t.aside = waited < moment, h.aside
				t.got(t.claim.Name, waited, h.received)
				return grant, nil
			}
		case <-w.look:
			if err == nil && b.listener.silent(w) {
				how = waitAndProbe
			}
		case <-ended:
			return driver.Grant{}, reason(ctx.Err(), failed)
		case <-closing:
			return driver.Grant{}, reason(ctx.Err(), failed)
		}
	}
}

// nextLook is when a waiter looks by itself: when the holder's time is over, if it
// does not renew. The first in the queue looks at once then. The others leave it
// the time to, but within a second one of them stands in for it.
func (a answer) nextLook() time.Duration {
	if a.left < 0 || a.left > glance {
		return glance + rand.N(glance/4)
	}
	if a.ahead == 0 {
		return a.left + 5*time.Millisecond + rand.N(20*time.Millisecond)
	}
	return a.left + 300*time.Millisecond + rand.N(500*time.Millisecond)
}

// handedOver makes a grant of the message h to a waiter whose last answer from
// the server was a; not ok means that the waiter had better ask.
//
// The server began to count when it sent h: no earlier than the request before,
// plus the time that the server's clock has measured since, if it said what time it was.
// A message from before the last answer is about a holding that has come and gone.
func (b *backend) handedOver(t *ticket, a answer, h handover) (driver.Grant, bool) {
	b.see(h.token)
	if !a.queued || h.at < a.now {
		return driver.Grant{}, false
	}
	sent := a.sent
	if a.now > 0 {
		sent = sent.Add(time.Duration(h.at-a.now) * time.Microsecond)
	}
	g := t.grant(h.token, min(sent, h.received))
	return g, g.Until.Sub(b.clock.Now()) > t.claim.TTL/2
}

// reason is the error of a wait that has ended: what was in the way, if anything
// was. The core adds that the context has ended, if it has.
func reason(end, failed error) error {
	if failed != nil {
		return failed
	}
	return end
}

// telling is that of two reasons which says more: what the server answered, rather than
// that a connection broke.
func telling(subscription, request error) error {
	if request != nil && word(request) != "" && word(subscription) == "" {
		return request
	}
	return cmp.Or(subscription, request)
}

// backoff is a pause that grows.
type backoff time.Duration

const minPause, maxPause = backoff(10 * time.Millisecond), backoff(time.Second)

func (p *backoff) next() time.Duration {
	d := time.Duration(*p)
	*p = min(*p*2, maxPause)
	return d/2 + rand.N(d)
}

package redis

import (
	"cmp"
	"context"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/redisnode"
)

// checkEvery is how soon a holder learns that its key was deleted by hand.
const checkEvery = 750 * time.Millisecond

// backend is the driver. All but Traits and Acquire is the node's.
type backend struct {
	*redisnode.Node
	clock driver.Clock
}

func newBackend(client goredis.UniversalClient, opts ...locker.Option) (*backend, *locker.Config, error) {
	o := redisnode.Options{Prefix: DefaultPrefix}
	cfg, err := locker.NewConfig("redis", &o, opts...)
	if err != nil {
		return nil, nil, err
	}
	o.Clock, o.Logger = cfg.Clock, cfg.Logger
	node, err := redisnode.Open(client, o)
	if err != nil {
		return nil, nil, locker.InvalidOption("redis", err)
	}
	return &backend{node, cfg.Clock}, cfg, nil
}

// Traits implements [driver.Driver].
func (b *backend) Traits() driver.Traits {
	return driver.Traits{
		Backend: "redis", Fair: true, Fenced: true, Shared: true, Permits: true,
		Inspect: true, Evict: true, Downgrade: true, Linger: true, Prompt: true, Check: checkEvery,
	}
}

// Acquire asks at once, without queueing. Only if the name is taken, and the claim is to wait, it subscribes,
// if that is not done already, and joins the queue.
func (b *backend) Acquire(ctx context.Context, claim *driver.Claim) (driver.Grant, error) {
	c := b.Claim(claim)
	claim.State = c
	if c.Wait && b.Listening(c) {
		return b.wait(ctx, c, nil)
	}
	a, err := b.Node.Acquire(ctx, c, redisnode.Try)
	switch {
	case err == nil && a.Granted:
		return grant(c, a), nil
	case c.Wait && (err == nil || redisnode.Transient(err)):
		return b.wait(ctx, c, err)
	case err == nil:
		err = b.Abandon(ctx, claim) // an earlier sending of the request may still take the name
	}
	return driver.Grant{}, cmp.Or(err, driver.ErrTaken)
}

// wait queues until the claim is granted. failed is what is in the way for the time being.
func (b *backend) wait(ctx context.Context, c *redisnode.Claim, failed error) (driver.Grant, error) {
	news := make(chan redisnode.Answer, 4)
	b.Join(c, func(a redisnode.Answer) {
		select {
		case news <- a:
		default: // it looks soon: it has much to read
		}
	})
	defer b.Leave(c)
	how := redisnode.Queue
	for pause := new(driver.Backoff); ; {
		a, err := b.Node.Acquire(ctx, c, how)
		next := a.NextLook()
		switch {
		case err == nil && a.Granted:
			return grant(c, a), nil
		case err == nil && how == redisnode.Try:
			how, next = redisnode.Queue, pause.Next()
		case err == nil:
			failed, *pause = nil, driver.Backoff{}
		case ctx.Err() != nil:
			return driver.Grant{}, cmp.Or(failed, err) // the core adds that ctx has ended
		case !redisnode.Transient(err):
			return driver.Grant{}, err
		default:
			failed, next = err, pause.Next()
			if !b.Listening(c) { // perhaps no connection can be made for that, but the name can be taken
				how = redisnode.Try
			}
		}
		if g, ok := b.sleep(ctx, c, news, next); ok {
			return g, nil
		}
	}
}

// sleep returns the grant that the server tells of; not ok when it is time to look, which is in next if there is no other
// news, or ctx has ended.
func (b *backend) sleep(ctx context.Context, c *redisnode.Claim, news <-chan redisnode.Answer, next time.Duration) (g driver.Grant, ok bool) {
	timer := time.NewTimer(next)
	defer timer.Stop()
	select {
	case a := <-news:
		// If less than half of its time is left, to ask counts the time anew.
		g = grant(c, a)
		return g, a.Granted && g.Until.Sub(b.clock.Now()) > c.TTL/2
	case <-timer.C:
	case <-ctx.Done():
	}
	return g, false
}

// grant is the answer to the core.
func grant(c *redisnode.Claim, a redisnode.Answer) driver.Grant {
	return driver.Grant{Token: a.Token, Spare: a.Spare, Until: a.Sent.Add(c.TTL)}
}

package redlock

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/redisnode"
)

const (
	// stragglers is how long the other nodes are waited for when one has told news.
	stragglers = 10 * time.Millisecond
	// maxSplits is how many times in a row a waiter looks soon because nobody has a majority.
	maxSplits = 4
)

// wait queues at the nodes until a majority has granted the name.
func (b *backend) wait(ctx context.Context, c *claim) (driver.Grant, error) {
	listen, stop := context.WithCancel(ctx)
	defer stop()
	first := b.bound // or as soon as enough nodes tell news
	if b.listening(c) {
		first = 0
	}
	c.due, c.alarm = time.Now().Add(first), time.NewTimer(first)
	for _, p := range c.places {
		p.Join(p.at, func(e redisnode.Event) { b.hear(listen, c, p, e) })
		defer p.Leave(p.at)
		b.working.Go(func() { b.subscribe(listen, c, p) })
	}
	for splits, outages := 0, 0; ; {
		select {
		case <-c.alarm.C:
		case <-ctx.Done():
			return driver.Grant{}, b.votes(c).failure()
		}
		if how := c.look(); b.held(c) < b.quorum { // it was not told of a majority
			b.askFor(ctx, c, how, 0)
		}
		g, err := b.grant(ctx, c)
		if err == nil {
			return g, nil
		}
		said := b.votes(c)
		switch yes, no := said.count(); {
		case said.lasting() > len(b.nodes)-b.quorum:
			return driver.Grant{}, said.failure()
		case yes+no < b.quorum:
			outages++
			c.lookIn(backoff(redisnode.MinPause, redisnode.MaxPause, outages), yes > 0)
		case yes > 0 && splits < maxSplits:
			// Those who hold the name on too few nodes leave them to the oldest who waits there.
			splits++
			c.lookIn(backoff(stragglers/2, 4*stragglers, splits), true)
		default:
			splits, outages = 0, 0
			c.lookIn(b.untilFree(c), false)
		}
	}
}

// lasting returns how many nodes have an error that no waiting will mend.
func (v votes) lasting() (n int) {
	for _, vote := range v {
		if !settled(vote) && !redisnode.Transient(vote) {
			n++
		}
	}
	return n
}

// lookIn has a waiter look after d at the latest, and then yield.
func (c *claim) lookIn(d time.Duration, yield bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.yield = c.yield || yield
	if due := time.Now().Add(d); due.Before(c.due) {
		c.due = due
		c.alarm.Reset(d)
	}
}

// look begins a look, and returns how to ask.
func (c *claim) look() redisnode.How {
	c.mu.Lock()
	defer c.mu.Unlock()
	how := redisnode.Queue
	if c.yield {
		how = redisnode.Yield
	}
	c.due, c.yield = time.Now().Add(time.Hour), false
	return how
}

// hear takes news from a node; it does not block.
func (b *backend) hear(listen context.Context, c *claim, p *place, e redisnode.Event) {
	switch {
	case e.Granted:
		c.mu.Lock()
		if a, ok := p.said.After(e); ok {
			p.heard(a)
		}
		c.mu.Unlock()
		if b.held(c) >= b.quorum {
			c.lookIn(0, false)
		} else {
			c.lookIn(stragglers, true) // if the other nodes do not follow
		}
	case e.In > 0:
		c.lookIn(e.In+stragglers, false)
	case e.Received == 0: // the subscription was interrupted
		c.lookIn(0, false)
		b.working.Go(func() { b.subscribe(listen, c, p) })
	default: // somebody took its place in the queue: it queues anew, at the end
		c.mu.Lock()
		if now := time.Now(); now.Sub(c.evicted) > time.Second { // the first node to say so
			c.since, c.evicted = b.time(), now
		}
		c.mu.Unlock()
		c.lookIn(stragglers, false)
	}
}

// listening reports whether enough nodes tell news.
func (b *backend) listening(c *claim) bool {
	n := 0
	for _, p := range c.places {
		if p.Listening(p.at) {
			n++
		}
	}
	return n >= b.quorum
}

// subscribe waits until a node tells news, and then has the claim queue there, too.
func (b *backend) subscribe(listen context.Context, c *claim, p *place) {
	mute := !p.Listening(p.at)
	for failures := 1; ; failures++ {
		err := p.Ready(listen, p.at)
		switch {
		case listen.Err() != nil:
			return
		case err == nil:
			if mute && b.listening(c) {
				c.lookIn(0, false)
			}
			return
		case !redisnode.Transient(err):
			b.log.Warn("locker: redlock: a node cannot tell when a name is free", "node", p.name, "error", err)
			c.mu.Lock()
			p.noNews = err
			c.mu.Unlock()
			c.lookIn(0, false)
			return
		}
		select {
		case <-time.After(backoff(redisnode.MinPause, redisnode.MaxPause, failures)):
		case <-listen.Done():
		}
	}
}

// untilFree returns when a majority of the nodes may be free, if no holder is heard of.
func (b *backend) untilFree(c *claim) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	var looks []time.Duration
	for _, p := range c.places {
		switch p.vote {
		case nil:
			looks = append(looks, 0)
		case driver.ErrGone:
			looks = append(looks, p.said.NextLook())
		}
	}
	if len(looks) < b.quorum {
		return redisnode.MaxPause
	}
	slices.Sort(looks)
	return looks[b.quorum-1]
}

// backoff is a random time of which the bounds double with each failure in a row.
func backoff(first, most time.Duration, failures int) time.Duration {
	d := min(first<<min(failures-1, 10), most)
	return d/2 + rand.N(d/2+1)
}

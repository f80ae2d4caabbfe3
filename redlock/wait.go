package redlock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/redisnode"
)

const (
	// stragglers is how long the other nodes are waited for when one has told news.
	stragglers = 10 * time.Millisecond
	// maxSplits is how many times in a row a waiter looks soon because nobody has a majority.
	maxSplits = 4
	// sameEviction is within which time the nodes that tell a waiter of an eviction speak of one. It is longer than a
	// request may take.
	sameEviction = 5 * time.Second
)

// wait queues at the nodes until a majority has granted the name.
func (b *backend) wait(ctx context.Context, c *claim) (driver.Grant, error) {
	listen, stop := context.WithCancel(ctx)
	defer stop()
	first := b.bound // or as soon as enough nodes tell news
	if b.listening(c) {
		first = 0
	}
	c.mu.Lock()
	c.due, c.alarm = time.Now().Add(first), time.NewTimer(first)
	c.mu.Unlock()
	for _, p := range c.places {
		p.Join(p.at, func(a redisnode.Answer) { b.hear(listen, c, p, a) })
		defer p.Leave(p.at)
		b.working.Go(func() { b.subscribe(listen, c, p) })
	}
	for splits := 0; ; {
		select {
		case <-c.alarm.C:
		case <-ctx.Done():
			return driver.Grant{}, b.votes(c).failure()
		}
		if how := c.look(); b.held(c) < b.quorum { // it was not told of a majority
			b.askFor(ctx, c, how)
		}
		g, err := b.grant(ctx, c)
		if err == nil {
			return g, nil
		}
		said := b.votes(c)
		switch yes, no := said.count(); {
		case said.lasting() > len(b.nodes)-b.quorum:
			return driver.Grant{}, said.failure()
		case yes+no < b.quorum: // too few answer
			c.lookIn(jitter(redisnode.MaxPause), yes > 0)
		case yes >= b.quorum || yes > 0 && splits < maxSplits:
			// Those who hold the name on too few nodes leave them to the oldest who waits there.
			splits++
			c.lookIn(jitter(2*stragglers), true)
		default: // it looks when a node is to be free, see askNode
			splits = 0
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

// lookIn has the claim look after d at the latest, and then yield.
func (c *claim) lookIn(d time.Duration, yield bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.yield = c.yield || yield
	c.lookBy(d)
}

// lookBy is lookIn without yielding, and nothing for a claim that does not wait. It wants claim.mu.
func (c *claim) lookBy(d time.Duration) {
	if due := time.Now().Add(d); due.Before(c.due) {
		c.due = due
		c.alarm.Reset(d)
	}
}

// look begins a look, and returns how to ask. The next is after the fallback interval at the latest.
func (c *claim) look() redisnode.How {
	c.mu.Lock()
	defer c.mu.Unlock()
	how := redisnode.Queue
	if c.yield {
		how = redisnode.Yield
	}
	fallback := redisnode.Answer{Left: -1}.NextLook()
	c.due, c.yield = time.Now().Add(fallback), false
	c.alarm.Reset(fallback)
	return how
}

// hear takes news from a node; it does not block.
func (b *backend) hear(listen context.Context, c *claim, p *place, a redisnode.Answer) {
	switch {
	case a.Granted:
		c.mu.Lock()
		p.heard(a)
		c.mu.Unlock()
		if b.held(c) < b.quorum {
			c.lookIn(stragglers, true) // if the other nodes do not follow
		} else {
			c.lookIn(0, false)
		}
	case a.Evicted: // it queues anew, at the end
		c.mu.Lock()
		if now := time.Now(); now.Sub(c.evicted) > sameEviction { // the first node to say so
			c.since, c.evicted = b.time(), now
		}
		c.mu.Unlock()
		c.lookIn(stragglers, false)
	default: // the subscription was interrupted, or the name stays taken for another time than was known
		c.lookIn(stragglers, false)
		b.working.Go(func() { b.subscribe(listen, c, p) })
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
			p.noNews = fmt.Errorf("node %s: %w", p.name, err)
			c.mu.Unlock()
			c.lookIn(0, false)
			return
		}
		select {
		case <-time.After(backoff(failures)):
		case <-listen.Done():
		}
	}
}

// jitter returns a random time of d at most, and at least half of that.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// backoff returns a pause after so many failures in a row.
func backoff(failures int) time.Duration {
	return jitter(min(redisnode.MinPause<<min(failures-1, 10), redisnode.MaxPause))
}

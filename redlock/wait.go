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
	for _, v := range c.votes {
		v.Join(v.at, func(e redisnode.Event) { b.hear(listen, c, v, e) })
		defer v.Leave(v.at)
	}
	mute := slices.DeleteFunc(b.all(), func(i int) bool { return c.votes[i].Listening(c.votes[i].at) })
	soon, cancel := context.WithTimeout(listen, b.bound)
	b.ask(soon, mute, func(i int) { b.ready(listen, c, c.votes[i]) }, func() bool { return b.listening(c) })
	cancel()
	var failed error
	for splits, outages := 0, 0; ; {
		c.mu.Lock()
		how := redisnode.Queue
		if c.yield {
			how = redisnode.Yield
		}
		c.due, c.yield = time.Now().Add(time.Hour), false
		c.mu.Unlock()
		if len(b.tally(c).held) < b.quorum { // it was not told of a majority
			b.askFor(ctx, c, how, 0)
		}
		g, err := b.grant(ctx, c)
		if err == nil {
			return g, nil
		}
		if ctx.Err() == nil || failed == nil {
			failed = err // what was in the way before ctx ended says more
		}
		switch t := b.tally(c); {
		case t.lasting > len(b.nodes)-b.quorum:
			return driver.Grant{}, b.failure(c)
		case len(t.held)+t.refused < b.quorum:
			outages++
			c.lookIn(backoff(redisnode.MinPause, redisnode.MaxPause, outages), len(t.held) > 0)
		case len(t.held) > 0 && splits < maxSplits:
			// Those who hold the name on too few nodes leave them to the oldest who waits there.
			splits++
			c.lookIn(backoff(stragglers/2, 4*stragglers, splits), true)
		default:
			splits, outages = 0, 0
			c.lookIn(b.untilFree(c), false)
		}
		if b.sleep(ctx, c); ctx.Err() != nil {
			return driver.Grant{}, failed
		}
	}
}

// sleep returns when it is time to look, a majority has granted the name, or ctx has ended.
func (b *backend) sleep(ctx context.Context, c *claim) {
	for len(b.tally(c).held) < b.quorum && ctx.Err() == nil {
		c.mu.Lock()
		rest := time.Until(c.due)
		c.mu.Unlock()
		if rest <= 0 {
			return
		}
		timer := time.NewTimer(rest)
		select {
		case <-timer.C:
		case <-c.news:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// lookIn has a waiter look after d at the latest, and then yield.
func (c *claim) lookIn(d time.Duration, yield bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if due := time.Now().Add(d); due.Before(c.due) {
		c.due = due
	}
	c.yield = c.yield || yield
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// hear takes news from a node; it does not block.
func (b *backend) hear(listen context.Context, c *claim, v *vote, e redisnode.Event) {
	switch {
	case e.Granted:
		c.mu.Lock()
		if a, ok := v.said.After(e); ok {
			v.heard(a)
		}
		c.mu.Unlock()
		c.lookIn(stragglers, true) // if the other nodes do not follow
	case e.In > 0:
		c.lookIn(e.In+stragglers, false)
	case e.Received == 0: // the subscription was interrupted
		c.lookIn(0, false)
		b.working.Go(func() { b.ready(listen, c, v) })
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
	for _, v := range c.votes {
		if v.Listening(v.at) {
			n++
		}
	}
	return n >= b.quorum
}

// ready waits until a node tells news, and then has the claim queue there, too.
func (b *backend) ready(listen context.Context, c *claim, v *vote) {
	for failures := 1; !v.Listening(v.at); failures++ {
		err := v.Ready(listen, v.at)
		if err == nil || listen.Err() != nil {
			break
		}
		if !redisnode.Transient(err) {
			b.log.Warn("locker: redlock: a node cannot tell when a name is free", "node", v.name, "error", err)
			c.mu.Lock()
			v.noNews = err
			c.mu.Unlock()
			break
		}
		select {
		case <-time.After(backoff(redisnode.MinPause, redisnode.MaxPause, failures)):
		case <-listen.Done():
		}
	}
	c.lookIn(0, false)
}

// untilFree returns when a majority of the nodes may be free, if no holder is heard of.
func (b *backend) untilFree(c *claim) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	var looks []time.Duration
	for _, v := range c.votes {
		switch {
		case v.said.Granted:
			looks = append(looks, 0)
		case v.answered:
			looks = append(looks, v.said.NextLook())
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

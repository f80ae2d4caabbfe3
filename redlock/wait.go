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
	// fallback is how often a waiter looks at least, whatever it was told. The servers keep a queue
	// three times as long at which no waiter has looked.
	fallback = 20 * time.Second
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
	b.subscribe(listen, c)
	var failed error
	for splits, outages := 0, 0; ; {
		if len(b.holds(c)) < b.quorum { // it was not told of a majority
			b.ask(ctx, c, true)
		}
		g, err := b.grant(ctx, c)
		if err == nil {
			return g, nil
		}
		if ctx.Err() == nil || failed == nil {
			failed = err // what was in the way before ctx ended says more
		}
		if b.vain(c) {
			return driver.Grant{}, b.failure(c)
		}
		held, refused := len(b.holds(c)), c.refused()
		switch {
		case held+refused < b.quorum:
			outages++
			c.lookIn(backoff(redisnode.MinPause, redisnode.MaxPause, outages), held > 0)
		case held > 0 && splits < maxSplits && !b.beaten(c):
			// Those who hold the name on too few nodes leave them to the oldest who waits there.
			splits++
			c.lookIn(backoff(stragglers/2, 4*stragglers, splits), true)
		default:
			splits, outages = 0, 0
			c.lookIn(b.untilFree(c), false)
		}
		if err := b.sleep(ctx, c); err != nil {
			return driver.Grant{}, failed
		}
	}
}

// sleep returns when it is time to look, or a majority has granted the name.
func (b *backend) sleep(ctx context.Context, c *claim) error {
	for len(b.holds(c)) < b.quorum {
		c.mu.Lock()
		rest := time.Until(c.due)
		c.mu.Unlock()
		if rest <= 0 {
			break
		}
		timer := time.NewTimer(rest)
		select {
		case <-timer.C:
		case <-c.news:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			break
		}
	}
	return ctx.Err()
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
		v.told(e)
		c.mu.Unlock()
		c.lookIn(stragglers, true) // if the other nodes do not follow
	case e.In > 0:
		c.lookIn(e.In+jitter(0), false)
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

// subscribe waits until enough nodes tell news, but not for long.
func (b *backend) subscribe(listen context.Context, c *claim) {
	first, rest := b.order(c.Name)
	ctx, cancel := context.WithTimeout(listen, b.bound)
	defer cancel()
	b.each(ctx, first, rest, func(i int) { b.ready(listen, c, c.votes[i]) }, func() bool { return b.listening(c) })
}

// ready waits until a node tells news, and then has the claim queue there, too.
func (b *backend) ready(listen context.Context, c *claim, v *vote) {
	if v.Listening(v.at) {
		return
	}
	err := v.Ready(listen, v.at)
	if listen.Err() != nil {
		return
	}
	if err != nil {
		b.log.Warn("locker: redlock: a node cannot tell when a name is free", "node", v.name, "error", err)
		c.mu.Lock()
		v.deaf = err
		c.mu.Unlock()
	}
	c.lookIn(0, false)
}

// vain reports whether too many nodes say what no waiting mends.
func (b *backend) vain(c *claim) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, v := range c.votes {
		if v.deaf != nil || v.err != nil && !redisnode.Transient(v.err) {
			n++
		}
	}
	return n > len(c.votes)-b.quorum
}

// beaten reports whether another holds the name alone on a majority of the nodes.
func (b *backend) beaten(c *claim) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	rivals := make(map[string]int)
	most := 0
	for _, v := range c.votes {
		if who := v.said.Who; v.answered && !v.held && who != "" {
			rivals[who]++
			most = max(most, rivals[who])
		}
	}
	return most >= b.quorum
}

// untilFree returns when a majority of the nodes may be free, if no holder is heard of.
func (b *backend) untilFree(c *claim) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	var lefts []time.Duration
	for _, v := range c.votes {
		switch left := v.said.Left; {
		case v.held:
			lefts = append(lefts, 0)
		case v.answered && (left < 0 || left > fallback):
			lefts = append(lefts, fallback+rand.N(fallback/4))
		case v.answered:
			lefts = append(lefts, left+jitter(v.said.Ahead))
		}
	}
	if len(lefts) < b.quorum {
		return redisnode.MaxPause
	}
	slices.Sort(lefts)
	return lefts[b.quorum-1]
}

// jitter returns how long after the end of a holding a waiter looks. The first in the queue looks
// at once. The others leave it the time to, but within a second one of them stands in for it.
func jitter(ahead int64) time.Duration {
	if ahead == 0 {
		return 5*time.Millisecond + rand.N(20*time.Millisecond)
	}
	return 300*time.Millisecond + rand.N(400*time.Millisecond)
}

// backoff is a random time of which the bounds double with each failure in a row.
func backoff(first, most time.Duration, failures int) time.Duration {
	d := min(first<<min(failures-1, 10), most)
	return d/2 + rand.N(d/2+1)
}

package redlock

import (
	"context"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/redisnode"
)

const (
	// maxRaises is how many times in a row a majority that has granted the name is asked for the same token. Each time
	// somebody else has raised the clock of the bucket meanwhile.
	maxRaises = 4
	// stragglers is how long the other nodes are waited for when one has told news.
	stragglers = 10 * time.Millisecond
	// barred is for how long a node does not count after a request to remove a claim's place had no answer: as long as that is
	// likely to have an effect.
	barred = 6 * time.Second
	// retryEvery is how long a claim that too few nodes answer waits at most until it asks again.
	retryEvery = time.Second
)

// Acquire implements [driver.Driver].
func (b *backend) Acquire(ctx context.Context, dc *driver.Claim) (driver.Grant, error) {
	return b.acquire(ctx, b.newClaim(dc))
}

// acquire asks the nodes for the name at each look, until a majority has granted it with the same token, or, if the claim
// does not wait, too few have granted it.
func (b *backend) acquire(ctx context.Context, c *claim) (driver.Grant, error) {
	if c.Wait {
		if slices.ContainsFunc(c.places, func(p *place) bool { return p.Listening(p.at) }) {
			c.next.how = redisnode.Queue // others have waited here before
		}
		for _, p := range c.places {
			p.Join(p.at, func(a redisnode.Answer) { b.hear(c, p, a) })
			defer p.Leave(p.at)
		}
	}
	raises, had, pause := 0, 0, time.Duration(0)
	for {
		how := c.next.begin()
		g, ok := b.grant(ctx, c)
		if !ok { // it was not told of a majority with one token
			b.askFor(ctx, c, how)
			g, ok = b.grant(ctx, c)
		}
		if ok {
			return g, nil
		}
		said, again := b.votes(c), redisnode.Queue
		yes, no := said.count()
		if yes != had || yes >= b.quorum {
			had, pause = yes, 2*stragglers
		}
		if yes > 0 { // those who hold the name on too few nodes leave them to the oldest who waits there
			again = redisnode.Yield
		}
		switch {
		case ctx.Err() != nil || said.lasting() > len(b.nodes)-b.quorum:
			return driver.Grant{}, b.failure(said)
		case yes >= b.quorum && raises < maxRaises: // with several tokens
			raises++
			c.next.in(0, redisnode.Try)
		case !c.Wait && (no == 0 || yes+no < b.quorum):
			return driver.Grant{}, b.failure(said)
		case !c.Wait: // what some nodes have granted, or may still grant, is given back first
			if err := b.Abandon(ctx, c.Claim); err != nil {
				return driver.Grant{}, err
			}
			return driver.Grant{}, driver.ErrTaken
		case how == redisnode.Try: // now it has to wait
			c.next.in(0, again)
		case yes+no < b.quorum: // too few answer; or they cannot tell news, so it tries again
			c.next.in(jitter(retryEvery), redisnode.Try)
		case yes > 0: // perhaps nobody has a majority, and an older one has yet to queue where it holds the name
			c.next.in(jitter(pause), again)
			raises, pause = 0, min(2*pause, fallback())
		default: // it looks when a node is to be free, see askNode
			raises = 0
		}
		select {
		case <-c.next.timer.C:
		case <-ctx.Done():
			return driver.Grant{}, b.failure(b.votes(c))
		}
	}
}

// askFor asks all nodes for the name. It returns when a majority has granted it, or has refused it and is not asked to yield,
// all have answered, the node timeout is over and a majority has answered, or ctx has ended.
func (b *backend) askFor(ctx context.Context, c *claim, how redisnode.How) {
	token := b.nextToken(c)
	if how != redisnode.Try {
		c.mu.Lock()
		if c.since == 0 { // a try has taught what time it is there
			c.since = b.time() - b.clock.Now().Sub(c.began).Microseconds()
		}
		c.mu.Unlock()
	}
	b.ask(ctx, func(i int) error { return b.askNode(c, c.places[i], how, token) }, func(yes, no int, late bool) bool {
		return yes >= b.quorum || no >= b.quorum && how != redisnode.Yield || late && yes+no >= b.quorum
	})
}

// askNode asks one node for the name, and for this token or a greater one. It returns its vote.
func (b *backend) askNode(c *claim, p *place, how redisnode.How, token int64) error {
	if !p.calls.TryLock() {
		if p.silent.Load() {
			return errSilent // it has a request already
		}
		p.calls.Lock()
	}
	defer p.calls.Unlock()
	c.mu.Lock()
	since, before, counted := c.since, p.said, b.counts(p)
	// Somebody took its place; a lost request may have taken that again.
	evict := !c.evicted.IsZero() && p.at.Since != since && p.at.Touched
	if how == redisnode.Yield && !p.answered.Load() {
		how = redisnode.Queue // nobody knows until when, by its time, a request may have an effect
	}
	takes := evict || how == redisnode.Yield // it may take the name away
	skip := c.ended || c.granted && takes || b.clock.Now() < p.barred || p.Time() <= p.takenUntil
	if takes && !skip {
		p.barred = math.MaxInt64
	}
	c.mu.Unlock()
	if skip {
		return errUnheard
	}
	var a redisnode.Answer
	lost, late := false, int64(0) // may still have an effect: the request to remove; until when that to acquire
	err := b.request(p.node, func(ctx context.Context) (err error) {
		if evict {
			c.mu.Lock()
			p.removed = time.Now() // the node may tell it that
			c.mu.Unlock()
			if lost, err = p.Remove(ctx, c.Name, c.ID); !settled(err) {
				return err
			}
		}
		if since != 0 {
			p.at.Since = since
		}
		p.at.Proposed = token
		a, err = p.Acquire(ctx, p.at, how)
		late = p.at.Lost
		return err
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	if how == redisnode.Yield {
		p.takenUntil = max(p.takenUntil, late)
	}
	switch now := b.clock.Now(); {
	case lost: // nobody knows until when
		p.barred = now.Add(barred)
	case err == nil: // the node's last word is its answer
		p.barred = 0
	case takes: // what the node said before it failed may not be so any more
		p.barred = now
	}
	if err != nil {
		if how != redisnode.Try && lasting(err) && !lasting(p.vote) {
			b.report(slog.LevelWarn, "a node cannot tell when a name is free", p.node, err)
		}
		p.vote = err // what it said before may not be so any more
		return err
	}
	p.answered.Store(true)
	p.heard(a, before)
	switch {
	case !a.Granted:
		c.next.in(a.NextLook(), redisnode.Queue)
	case counted != nil && c.Wait: // perhaps after a majority has refused it
		c.next.in(stragglers, redisnode.Queue)
	}
	return b.counts(p)
}

// jitter returns a random time of d at most, and at least half of that.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

package redlock

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/redisnode"
)

const (
	// lead is by how many microseconds a token that we propose is ahead of the nodes' time, to make
	// up for the way of the request.
	lead = 50_000
	// maxSpare is how many tokens above its own a grant has at most.
	maxSpare = 1000
	// tokenTries is how many times a token is raised. Each time somebody else has raised the clock
	// of the bucket meanwhile.
	tokenTries = 4
)

// Acquire implements [driver.Driver].
func (b *backend) Acquire(ctx context.Context, dc *driver.Claim) (driver.Grant, error) {
	for _, n := range b.nodes {
		n.CheckEviction()
	}
	c := b.newClaim(dc)
	if c.Wait && b.listening(c) {
		return b.wait(ctx, c)
	}
	b.ask(ctx, c, false)
	g, err := b.grant(ctx, c)
	switch {
	case err == nil:
		return g, nil
	case ctx.Err() != nil:
		return driver.Grant{}, err
	case c.Wait:
		return b.wait(ctx, c)
	}
	if refused := c.refused(); refused == 0 || refused+len(b.holds(c)) < b.quorum {
		return driver.Grant{}, err
	}
	// What some nodes have granted, or may still grant, is given back first.
	if err := b.Abandon(ctx, dc); err != nil {
		return driver.Grant{}, err
	}
	return driver.Grant{}, driver.ErrTaken
}

// ask asks the first majority for the name, and the others if it is not unanimous. The claim queues
// where the name is taken if queue is set. It returns when a majority has granted or refused the
// name, all have answered or had their time, or ctx has ended.
func (b *backend) ask(ctx context.Context, c *claim, queue bool) {
	c.mu.Lock()
	for _, v := range c.votes {
		v.answered, v.err = false, nil
	}
	yield := c.yield
	c.due, c.yield = time.Now().Add(time.Hour), false
	c.mu.Unlock()
	first, rest := b.order(c.Name)
	token := b.time() + lead
	b.each(ctx, first, rest, func(i int) { b.askNode(c, c.votes[i], token, queue, yield) }, func() bool {
		return len(b.holds(c)) >= b.quorum || !yield && c.refused() >= b.quorum
	})
}

// askNode asks one node, which gives the token if it can.
func (b *backend) askNode(c *claim, v *vote, token int64, queue, yield bool) {
	v.calls.Lock()
	defer v.calls.Unlock()
	now := b.clock.Now()
	c.mu.Lock()
	skip := c.end != nil || now < v.barred
	if v.begun == 0 && !skip {
		v.begun = now
	}
	v.at.Since, v.at.Yield = c.since, yield
	c.mu.Unlock()
	if skip {
		return
	}
	var a redisnode.Answer
	err := b.request(v.node, func(ctx context.Context) (err error) {
		a, err = v.Acquire(ctx, v.at, queue && v.Listening(v.at), token)
		return err
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	v.heard(a, err)
	if err != nil && yield && v.at.Unanswered() {
		v.barred, v.held = b.clock.Now().Add(barred), false
	}
}

// grant returns the grant of a claim that a majority votes for: at once if these have written the
// same token, not long ago, and otherwise after a second round in which they do.
func (b *backend) grant(ctx context.Context, c *claim) (driver.Grant, error) {
	if err := b.majority(ctx, c, b.holds(c), false); err != nil {
		return driver.Grant{}, err
	}
	for range tokenTries {
		if g := b.agreed(c); g.Until.Sub(b.clock.Now()) > c.TTL/2 {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.grant = g
			c.spread = time.AfterFunc(b.spreadAfter, func() { b.spread(c) })
			return g, nil
		}
		if err := b.settle(ctx, c); err != nil {
			return driver.Grant{}, err
		}
	}
	return driver.Grant{}, fmt.Errorf("the nodes did not agree on a token in time: %w", b.failure(c))
}

// settle is the second round: it has the nodes that vote for the claim write one token for it, which
// is greater than all that they know, and count the TTL anew. It returns an error if too few vote
// for it, or ctx ends. If too few have written the token it can be tried again.
func (b *backend) settle(ctx context.Context, c *claim) error {
	now, start := b.time(), b.clock.Now()
	token, spare := now+lead, int64(min(c.Spare, maxSpare))
	c.mu.Lock()
	for _, v := range c.votes {
		token = max(token, v.token+v.spare+1)
	}
	c.mu.Unlock()
	if token > now+2*lead {
		spare = 0 // or the tokens would run away from the time
	}
	var mu sync.Mutex
	var written []int
	b.each(ctx, b.holds(c), nil, func(i int) {
		if b.settleNode(c, c.votes[i], token, spare, start) {
			mu.Lock()
			defer mu.Unlock()
			written = append(written, i)
		}
	}, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(written) >= b.quorum
	})
	mu.Lock()
	defer mu.Unlock()
	if len(written) < b.quorum && len(b.holds(c)) >= b.quorum && ctx.Err() == nil {
		return nil
	}
	return b.majority(ctx, c, written, true)
}

// settleNode has one node write the token, and reports whether it has.
func (b *backend) settleNode(c *claim, v *vote, token, spare int64, start driver.Instant) (settled bool) {
	v.calls.Lock()
	defer v.calls.Unlock()
	clock, gone := int64(0), false
	err := b.request(v.node, func(ctx context.Context) (err error) {
		settled, clock, err = v.Settle(ctx, v.at, token, spare)
		if gone = err == driver.ErrGone; gone {
			return nil
		}
		return err
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	switch v.err = err; {
	case gone || err != nil:
		v.held = false // or it is not known any more
	case settled:
		v.token, v.spare, v.since = token, spare, start
	default:
		v.token, v.spare = clock, 0
	}
	return settled
}

package redlock

import (
	"context"
	"fmt"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/redisnode"
)

const (
	// lead is by how many microseconds a token that we propose is ahead of the nodes' time, to make up for the
	// way of the request.
	lead = 50_000
	// rounds is how many times a majority that has granted the name is asked for the same token. Each time
	// somebody else has raised the clock of the bucket meanwhile.
	rounds = 4
	// barred is for how long a node does not count while a request to yield has no answer: as long as that may
	// have an effect.
	barred = 6 * time.Second
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
	b.askFor(ctx, c, redisnode.Try, 0)
	g, err := b.grant(ctx, c)
	switch t := b.tally(c); {
	case err == nil || ctx.Err() != nil:
		return g, err
	case c.Wait:
		return b.wait(ctx, c)
	case t.refused == 0 || t.refused+len(t.held) < b.quorum:
		return g, err
	}
	// What some nodes have granted, or may still grant, is given back first.
	if err := b.Abandon(ctx, dc); err != nil {
		return g, err
	}
	return g, driver.ErrTaken
}

// askFor asks all nodes for the name. They give the token, or a greater one. It returns when a majority has
// granted or refused the name, all have answered or had their time, or ctx has ended.
func (b *backend) askFor(ctx context.Context, c *claim, how redisnode.How, token int64) {
	c.mu.Lock()
	c.round++
	round := c.round
	for _, v := range c.votes {
		v.answered, v.err = false, nil
	}
	c.mu.Unlock()
	token = max(token, b.time()+lead)
	b.ask(ctx, b.all(), func(i int) { b.askNode(c, c.votes[i], how, token, round) }, func() bool {
		t := b.tally(c)
		return t.written >= b.quorum || how != redisnode.Yield && t.refused >= b.quorum
	})
}

// askNode asks one node.
func (b *backend) askNode(c *claim, v *vote, how redisnode.How, token int64, round int) {
	v.calls.Lock()
	defer v.calls.Unlock()
	if how != redisnode.Raise && !v.Listening(v.at) {
		how = redisnode.Try
	}
	c.mu.Lock()
	skip := c.end != nil || b.clock.Now() < v.barred
	late := v.at.LateUntil()
	if how == redisnode.Yield && !skip {
		v.barred = b.clock.Now().Add(barred) // it may take the name away
	}
	v.at.Since = c.since
	c.mu.Unlock()
	if skip {
		return
	}
	var a redisnode.Answer
	err := b.request(v.node, func(ctx context.Context) (err error) {
		a, err = v.Acquire(ctx, v.at, how, token)
		return err
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	v.answered, v.err = err == nil && round == c.round, err
	if err == nil {
		v.heard(a)
	} else {
		v.said.Granted = false // or it is not known any more
	}
	if v.at.LateUntil() == late {
		v.barred = 0 // no sending of this request may still have an effect
	}
}

// grant returns the grant of a claim that a majority votes for: at once if these have written the same token, not
// long ago, and otherwise after another round in which they do.
func (b *backend) grant(ctx context.Context, c *claim) (driver.Grant, error) {
	for range rounds {
		if len(b.tally(c).held) < b.quorum {
			return driver.Grant{}, b.failure(c)
		}
		if g, nodes := b.agreed(c); g.Until.Sub(b.clock.Now()) > c.TTL/2 {
			if err := b.majority(ctx, c, nodes); err != nil {
				return driver.Grant{}, err
			}
			return g, nil
		}
		b.askFor(ctx, c, redisnode.Raise, b.tally(c).highest+1)
	}
	return driver.Grant{}, fmt.Errorf("the nodes did not agree on a token in time: %w", b.failure(c))
}

package redlock

import (
	"context"
	"fmt"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/redisnode"
)

const (
	// rounds is how many times a majority that has granted the name is asked for the same token. Each time
	// somebody else has raised the clock of the bucket meanwhile.
	rounds = 4
	// barred is for how long a node does not count while a request to yield has no answer: as long as that may
	// have an effect.
	barred = 6 * time.Second
)

// Acquire implements [driver.Driver].
func (b *backend) Acquire(ctx context.Context, dc *driver.Claim) (driver.Grant, error) {
	c := b.newClaim(dc)
	if c.Wait && b.listening(c) {
		return b.wait(ctx, c)
	}
	b.askFor(ctx, c, redisnode.Try)
	g, err := b.grant(ctx, c)
	switch yes, no := b.votes(c).count(); {
	case err == nil || ctx.Err() != nil:
		return g, err
	case c.Wait:
		return b.wait(ctx, c)
	case no == 0 || yes+no < b.quorum:
		return g, err
	}
	// What some nodes have granted, or may still grant, is given back first.
	if err := b.Abandon(ctx, dc); err != nil {
		return g, err
	}
	return g, driver.ErrTaken
}

// askFor asks all nodes for the name. It returns when a majority has granted or refused it, all have answered, the
// node timeout is over and a majority has answered, or ctx has ended.
func (b *backend) askFor(ctx context.Context, c *claim, how redisnode.How) {
	token := b.nextToken(c)
	b.ask(ctx, func(i int) error { return b.askNode(c, c.places[i], how, token) }, func(yes, no int, late bool) bool {
		return yes >= b.quorum || no >= b.quorum && how != redisnode.Yield || late && yes+no >= b.quorum
	})
}

// askNode asks one node for the name, and for this token or a greater one. It returns its vote.
func (b *backend) askNode(c *claim, p *place, how redisnode.How, token int64) error {
	p.calls.Lock()
	defer p.calls.Unlock()
	if !p.Listening(p.at) {
		how = redisnode.Try // it could not tell of a grant
	}
	c.mu.Lock()
	skip := c.ended || b.clock.Now() < p.barred
	late := p.at.LateUntil
	if how == redisnode.Yield && !skip {
		p.barred = b.clock.Now().Add(barred) // it may take the name away
	}
	moved := p.at.Touched && p.at.Since != c.since
	if !skip {
		p.at.Since = c.since
	}
	c.mu.Unlock()
	if skip {
		return p.unheard
	}
	var a redisnode.Answer
	err := b.request(p.node, func(ctx context.Context) (err error) {
		if moved { // somebody took its place; a request that was under way may have taken that again, with the old age
			if err := p.Evict(ctx, c.Name, c.ID); !settled(err) {
				return err
			}
		}
		p.at.Proposed = token
		a, err = p.Acquire(ctx, p.at, how)
		return err
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.at.LateUntil == late {
		p.barred = 0 // no sending of this request may still have an effect
	}
	if err != nil {
		p.vote = err // what it said before may not be so any more
		return err
	}
	p.heard(a)
	if !a.Granted {
		c.lookBy(a.NextLook())
	}
	return b.counts(p)
}

// grant returns the grant of a claim that a majority votes for: at once if these have written the same token, not
// long ago, and otherwise after another round in which they do.
func (b *backend) grant(ctx context.Context, c *claim) (driver.Grant, error) {
	for range rounds {
		if b.held(c) < b.quorum {
			return driver.Grant{}, b.votes(c).failure()
		}
		if g, nodes := b.agreed(c); g.Until.Sub(b.clock.Now()) > c.TTL/2 {
			if err := b.majority(ctx, c, nodes); err != nil {
				return driver.Grant{}, err
			}
			return g, nil
		}
		b.askFor(ctx, c, redisnode.Try)
	}
	return driver.Grant{}, fmt.Errorf("the nodes did not agree on a token in time: %w", b.votes(c).failure())
}

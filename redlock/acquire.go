package redlock

import (
	"context"
	"fmt"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/redisnode"
)

// tokenTries is how many times a token is raised. Each time somebody else has raised the clock of
// the bucket meanwhile.
const tokenTries = 4

// question is how the nodes are asked for a name.
type question struct {
	wait  bool  // queue where it is taken
	yield bool  // let those go first who are older, also where it is granted
	token int64 // that a node gives if it can
}

// Acquire implements [driver.Driver].
func (b *backend) Acquire(ctx context.Context, dc *driver.Claim) (driver.Grant, error) {
	b.warned.Do(func() {
		for _, n := range b.nodes {
			n.CheckEviction()
		}
	})
	c := b.newClaim(dc)
	if !c.Wait || !b.listening(c) {
		b.ask(ctx, c, question{})
		g, err := b.grant(ctx, c)
		if err == nil {
			return g, nil
		}
		if ctx.Err() != nil {
			return driver.Grant{}, because(ctx.Err(), err)
		}
		if !c.Wait {
			return driver.Grant{}, b.refused(ctx, c, err)
		}
	}
	return b.wait(ctx, c)
}

// refused returns driver.ErrTaken if enough nodes said that another has the name, when what the
// others have granted has been given back.
func (b *backend) refused(ctx context.Context, c *claim, err error) error {
	held, refused := b.count(c)
	if refused == 0 || refused+held < b.quorum {
		return err
	}
	if err := b.end(c, 0).cleaned(ctx); err != nil {
		return err
	}
	return driver.ErrTaken
}

// ask puts the question to the first majority, and to the others if it is not unanimous. It returns
// when a majority has granted or refused the name, all have answered or had their time, or ctx has
// ended.
func (b *backend) ask(ctx context.Context, c *claim, q question) {
	first, rest := b.order(c.Name)
	q.token = b.time() + lead
	c.forget()
	answers := make(chan struct{}, len(b.nodes))
	put := func(nodes []int) {
		for _, i := range nodes {
			b.working.Go(func() {
				b.askNode(c, c.votes[i], q)
				answers <- struct{}{}
			})
		}
	}
	put(first)
	hurry := time.NewTimer(slowAfter)
	defer hurry.Stop()
	for open := len(first); open > 0; {
		select {
		case <-answers:
			open--
		case <-hurry.C:
			for _, i := range first {
				c.mu.Lock()
				slow := open == 1 && !c.votes[i].answered && c.votes[i].err == nil
				c.mu.Unlock()
				if slow {
					b.nodes[i].slow.Store(true)
				}
			}
			put(rest)
			open, rest = open+len(rest), nil
		case <-ctx.Done():
			return
		}
		held, refused := b.count(c)
		if held >= b.quorum || refused >= b.quorum && !q.yield {
			return
		}
		if open == 0 {
			put(rest)
			open, rest = len(rest), nil
		}
	}
}

// askNode asks one node.
func (b *backend) askNode(c *claim, v *vote, q question) {
	v.calls.Lock()
	defer v.calls.Unlock()
	c.mu.Lock()
	now := b.clock.Now()
	skip := c.over || now < v.barred
	if v.begun == 0 {
		v.begun = now
	}
	c.mu.Unlock()
	if skip {
		return
	}
	var a redisnode.Answer
	v.at.Yield = q.yield
	err := b.request(v.node, func(ctx context.Context) (err error) {
		a, err = v.Acquire(ctx, v.at, q.wait && v.Listening(v.at), q.token)
		return err
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	v.heard(a, err)
	if err != nil && q.yield && v.at.Unanswered() {
		v.barred, v.held = b.clock.Now().Add(barred), false
	}
}

// grant returns the grant of a claim that a majority votes for: at once if they have written the same
// token, not long ago, and otherwise after a second round in which they do.
func (b *backend) grant(ctx context.Context, c *claim) (driver.Grant, error) {
	if held, _ := b.count(c); held < b.quorum {
		return driver.Grant{}, b.failure(c)
	}
	if err := c.mutex(b.ballots(c)).TryLockContext(ctx); err != nil {
		return driver.Grant{}, fmt.Errorf("%w: %w", err, b.failure(c))
	}
	for try := 0; ; try++ {
		token, spare, until := b.agreed(c)
		if until.Sub(b.clock.Now()) > c.TTL/2 {
			c.mu.Lock()
			c.token, c.spare = token, min(spare, int64(c.Spare))
			g := driver.Grant{Token: token, Spare: c.spare, Until: until}
			c.spread = time.AfterFunc(spreadAfter, func() { b.spread(c) })
			c.mu.Unlock()
			return g, nil
		}
		if try == tokenTries {
			return driver.Grant{}, fmt.Errorf("the nodes did not agree on a token, %d times: %w", try, b.failure(c))
		}
		if err := b.settle(ctx, c); err != nil {
			return driver.Grant{}, err
		}
	}
}

// settle is the second round: it has the nodes that vote for the claim write one token for it, which
// is greater than all that they know, and count the TTL anew. It returns an error if too few still
// vote for it.
func (b *backend) settle(ctx context.Context, c *claim) error {
	now := b.time()
	token := max(c.highest()+1, now+lead)
	spare := int64(min(c.Spare, maxSpare))
	if token > now+2*lead {
		spare = 0
	}
	start := b.clock.Now()
	answers := make(chan bool, len(b.nodes))
	open, yes := 0, 0
	ballots := b.ballots(c)
	for i, v := range c.votes {
		if !ballots[i].yes {
			continue
		}
		ballots[i] = ballot{extend: true}
		open++
		b.working.Go(func() { answers <- b.settleNode(c, v, token, spare, start) })
	}
	for ; open > 0 && yes < b.quorum; open-- {
		select {
		case ok := <-answers:
			if ok {
				yes++
			}
		case <-ctx.Done():
			return because(ctx.Err(), b.failure(c))
		}
	}
	if held, _ := b.count(c); held < b.quorum {
		return b.failure(c)
	}
	c.mu.Lock()
	for i, v := range c.votes {
		ballots[i] = ballot{extend: true, yes: v.held && v.token == token, err: v.err}
	}
	c.mu.Unlock()
	if yes < b.quorum {
		return nil // it is tried again with a greater one
	}
	if ok, err := c.mutex(ballots).ExtendContext(ctx); !ok {
		return fmt.Errorf("no majority for a token: %w", err)
	}
	return nil
}

// settleNode has one node write the token, and reports whether it has.
func (b *backend) settleNode(c *claim, v *vote, token, spare int64, start driver.Instant) bool {
	v.calls.Lock()
	defer v.calls.Unlock()
	c.mu.Lock()
	over := c.over
	c.mu.Unlock()
	if over {
		return false
	}
	var settled bool
	var clock int64
	err := b.request(v.node, func(ctx context.Context) (err error) {
		settled, clock, err = v.Settle(ctx, v.at, token, spare)
		if err == driver.ErrGone {
			clock, err = -1, nil
		}
		return err
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	v.err = err
	switch {
	case err != nil:
	case settled:
		v.token, v.spare, v.since = token, spare, start
	case clock < 0:
		v.held = false
	default:
		v.token = max(v.token, clock)
		v.spare = 0
	}
	return settled
}

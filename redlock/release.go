package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/redisnode"
)

var errSilent = errors.New("a node does not answer")

// ending is the end of a claim on all nodes. It goes on in the background until each has answered,
// or has no reason any more to know of the claim.
type ending struct {
	*claim
	b       *backend
	until   driver.Instant // the name stays taken until then
	next    int64          // the token that is proposed for who comes next
	nodes   []told         // guarded by claim.mu
	changed chan struct{}
}

// told is what one node has said to the end of the claim.
type told struct {
	done bool // it has answered, or its time is over
	held bool // the claim held the name
	err  error
}

// Release implements [driver.Driver].
func (b *backend) Release(ctx context.Context, dc *driver.Claim) error { return b.Linger(ctx, dc, 0) }

// Linger implements [driver.Lingerer]. It returns when a majority has said that the claim held the
// name; the other nodes are told in the background.
func (b *backend) Linger(ctx context.Context, dc *driver.Claim, d time.Duration) error {
	return b.finish(stateOf(dc), d).wait(ctx, func(held, gone int, rest []error) (bool, error) {
		switch {
		case held >= b.quorum:
			return true, nil
		case gone >= b.quorum:
			return true, driver.ErrGone
		case held > 0 && held+gone >= b.quorum:
			return false, nil // if the others do not answer
		}
		return false, &QuorumError{Nodes: len(b.nodes), Yes: held, No: gone, Errs: rest}
	})
}

// Abandon implements [driver.Driver]. What a minority that does not answer has of the claim cannot
// make it a holder; those nodes are told in the background, until their TTL is over.
func (b *backend) Abandon(ctx context.Context, dc *driver.Claim) error {
	c := stateOf(dc)
	if c == nil {
		return nil // it never asked
	}
	return b.finish(c, 0).wait(ctx, func(held, gone int, rest []error) (bool, error) {
		clean, all := held+gone, len(b.nodes)
		if clean == all || clean >= b.quorum && clean+len(rest) == all {
			return true, nil
		}
		return false, fmt.Errorf("not yet given back everywhere: %w", &QuorumError{Nodes: all, Yes: clean, Errs: rest})
	})
}

// finish begins to end the claim, if that has not begun. The name stays taken for d more.
func (b *backend) finish(c *claim, d time.Duration) *ending {
	now := b.clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.end != nil {
		return c.end
	}
	e := &ending{claim: c, b: b, until: now.Add(d), nodes: make([]told, len(c.votes)), changed: make(chan struct{}, 1)}
	e.next = max(c.grant.Token+c.grant.Spare+1, b.time()+lead)
	c.end = e
	if c.spread != nil {
		c.spread.Stop()
	}
	for i, v := range c.votes {
		if v.begun == 0 {
			e.nodes[i].done = true
			v.Forget(v.at)
			continue
		}
		b.working.Go(func() { e.run(i, v, now.Add(d+c.TTL+barred)) })
	}
	return e
}

// run tells one node again and again, but no longer than until last. One that is left out is told when
// it answers again.
func (e *ending) run(i int, v *vote, last driver.Instant) {
	for pause := redisnode.MinPause; ; {
		said, silent := told{err: errSilent}, e.b.leftOut(v.node)
		if !silent {
			said = e.tell(v)
		}
		said.done = said.err == nil || e.b.clock.Now() > last || e.b.closing.Err() != nil
		e.mu.Lock()
		e.nodes[i] = said
		e.mu.Unlock()
		select {
		case e.changed <- struct{}{}:
		default:
		}
		switch {
		case said.done:
			return
		case silent:
			e.b.owe(v.node, debt{last, func() { e.run(i, v, last) }})
			return
		}
		select {
		case <-time.After(pause):
			pause = min(2*pause, redisnode.MaxPause)
		case <-e.b.closing.Done():
		}
	}
}

// tell tells one node.
func (e *ending) tell(v *vote) (said told) {
	v.calls.Lock()
	defer v.calls.Unlock()
	e.mu.Lock()
	held := v.held
	e.mu.Unlock()
	said.err = e.b.request(v.node, func(ctx context.Context) (err error) {
		if !held {
			return v.Abandon(ctx, v.at)
		}
		err = v.Release(ctx, v.at, max(0, e.until.Sub(e.b.clock.Now())), e.next)
		if said.held = err == nil; err == driver.ErrGone {
			return nil
		}
		return err
	})
	return said
}

// wait returns what decided says, as soon as it is certain, every node has been told once, or ctx has
// ended.
func (e *ending) wait(ctx context.Context, decided func(held, gone int, rest []error) (bool, error)) error {
	for {
		held, gone, all := 0, 0, true
		var rest []error
		e.mu.Lock()
		for i, said := range e.nodes {
			switch {
			case said.err != nil:
				rest = append(rest, said.err)
			case said.held:
				held++
			case said.done:
				gone++
			case e.b.leftOut(e.votes[i].node):
				rest = append(rest, errSilent)
			default:
				all = false
			}
		}
		e.mu.Unlock()
		if ok, err := decided(held, gone, rest); ok || all {
			return err
		} else if ctx.Err() != nil {
			return cmp.Or(err, ctx.Err())
		}
		select {
		case <-e.changed:
		case <-time.After(e.b.bound): // a node may have turned out to be silent
		case <-ctx.Done():
		}
	}
}

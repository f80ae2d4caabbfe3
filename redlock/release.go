package redlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/redisnode"
)

// ending is the end of a claim on all nodes. It goes on in the background until each has answered,
// or has no reason any more to know of the claim.
type ending struct {
	b       *backend
	c       *claim
	changed chan struct{} // closed and replaced, guarded by claim.mu, as is
	nodes   []endAt
	next    int64 // the token that the nodes propose to who comes next
}

// endAt is what one node has said to the end of the claim.
type endAt struct {
	done bool // it has been told, or its time is over
	yes  bool // the claim held the name
	err  error
}

// end begins to end the claim, if that has not begun. The name stays taken for linger more where the
// claim holds it.
func (b *backend) end(c *claim, linger time.Duration) *ending {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending != nil {
		return c.ending
	}
	e := &ending{b: b, c: c, changed: make(chan struct{}), nodes: make([]endAt, len(c.votes))}
	c.ending, c.over = e, true
	if c.spread != nil {
		c.spread.Stop()
	}
	until := b.clock.Now().Add(linger)
	e.next = max(c.token+c.spare+1, b.time()+lead)
	for i, v := range c.votes {
		if v.begun == 0 {
			e.nodes[i].done = true
			v.Forget(v.at)
			continue
		}
		b.working.Go(func() { e.run(i, v, until) })
	}
	return e
}

// run tells one node again and again.
func (e *ending) run(i int, v *vote, until driver.Instant) {
	b, c := e.b, e.c
	last := max(until, b.clock.Now()).Add(c.TTL + barred)
	for pause := redisnode.MinPause; ; pause = min(2*pause, redisnode.MaxPause) {
		at := e.tell(v, until)
		at.done = at.err == nil || b.clock.Now() > last || b.closing.Err() != nil
		c.mu.Lock()
		e.nodes[i] = at
		close(e.changed)
		e.changed = make(chan struct{})
		c.mu.Unlock()
		if at.done {
			return
		}
		select {
		case <-time.After(pause):
		case <-b.closing.Done():
		}
	}
}

// tell tells one node.
func (e *ending) tell(v *vote, until driver.Instant) (at endAt) {
	b, c := e.b, e.c
	v.calls.Lock()
	defer v.calls.Unlock()
	c.mu.Lock()
	held := v.held
	c.mu.Unlock()
	at.err = b.request(v.node, func(ctx context.Context) error {
		if !held {
			return v.Abandon(ctx, v.at)
		}
		linger := max(0, until.Sub(b.clock.Now()))
		err := v.Release(ctx, v.at, linger, e.next)
		at.yes = err == nil
		if err == driver.ErrGone {
			return nil
		}
		return err
	})
	return at
}

// wait returns when decided says so, or ctx ends, or every node has been told once; with what
// decided said.
func (e *ending) wait(ctx context.Context, decided func(yes, no int, rest []error) (bool, error)) error {
	for {
		yes, no := 0, 0
		var rest []error
		tried := true
		e.c.mu.Lock()
		for i, at := range e.nodes {
			switch {
			case at.yes:
				yes++
			case at.done && at.err == nil:
				no++
			case at.err != nil:
				rest = append(rest, at.err)
			case e.c.votes[i].silent.Load():
				rest = append(rest, e.c.votes[i].wrap(errSilent))
			default:
				tried = false
			}
		}
		changed := e.changed
		e.c.mu.Unlock()
		ok, err := decided(yes, no, rest)
		if ok || tried {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return because(ctx.Err(), err)
		}
	}
}

var errSilent = errors.New("does not answer")

// Release implements [driver.Driver]. It returns when a majority has said that the claim held the
// name; the other nodes are told in the background.
func (b *backend) Release(ctx context.Context, dc *driver.Claim) error {
	return b.end(stateOf(dc), 0).released(ctx)
}

// Linger implements [driver.Lingerer].
func (b *backend) Linger(ctx context.Context, dc *driver.Claim, d time.Duration) error {
	return b.end(stateOf(dc), d).released(ctx)
}

func (e *ending) released(ctx context.Context) error {
	b := e.b
	return e.wait(ctx, func(yes, no int, rest []error) (bool, error) {
		switch {
		case yes >= b.quorum:
			return true, nil
		case no >= b.quorum:
			return true, driver.ErrGone
		case yes > 0 && yes+no >= b.quorum:
			return false, nil // if the others do not answer
		}
		return false, &QuorumError{Nodes: len(b.nodes), Yes: yes, No: no, Errs: rest}
	})
}

// Abandon implements [driver.Driver]. What a minority that does not answer has of the claim cannot
// make it a holder; those nodes are told in the background, until their TTL is over.
func (b *backend) Abandon(ctx context.Context, dc *driver.Claim) error {
	c := stateOf(dc)
	if c == nil {
		return nil // it never asked
	}
	return b.end(c, 0).cleaned(ctx)
}

func (e *ending) cleaned(ctx context.Context) error {
	b := e.b
	return e.wait(ctx, func(yes, no int, rest []error) (bool, error) {
		if clean := yes + no; clean == len(b.nodes) || clean >= b.quorum && clean+len(rest) == len(b.nodes) {
			return true, nil
		}
		return false, fmt.Errorf("not yet given back everywhere: %w", &QuorumError{Nodes: len(b.nodes), Yes: yes + no, Errs: rest})
	})
}

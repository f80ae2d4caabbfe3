package redlock

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/redisnode"
)

// endTries is how often a node is told of the end of a claim, for some seconds. One that does not answer for
// longer forgets the claim after its TTL.
const endTries = 6

// ending is the end of a claim on all nodes. It goes on in the background.
type ending struct {
	until   driver.Instant // the name stays taken until then
	next    int64          // the token that is proposed for who comes next
	changed chan struct{}
	nodes   []told // guarded by claim.mu
}

// told is what one node has said to the end of the claim.
type told struct {
	running    bool // it is being told
	held, gone bool // the claim held the name there, or did not
	err        error
}

// Release implements [driver.Driver].
func (b *backend) Release(ctx context.Context, dc *driver.Claim) error { return b.Linger(ctx, dc, 0) }

// Linger implements [driver.Lingerer]. It returns when a majority has said that the claim held the name; the
// other nodes are told in the background.
func (b *backend) Linger(ctx context.Context, dc *driver.Claim, d time.Duration) error {
	return b.finish(ctx, stateOf(dc), d, func(q *QuorumError) (bool, error) {
		switch {
		case q.Yes >= b.quorum:
			return true, nil
		case q.No >= b.quorum:
			return true, driver.ErrGone
		case q.Yes > 0 && q.Yes+q.No >= b.quorum:
			return false, nil // if the others do not answer
		}
		return false, q
	})
}

// Abandon implements [driver.Driver]. What a minority has of the claim cannot make it a holder; those nodes are
// told in the background.
func (b *backend) Abandon(ctx context.Context, dc *driver.Claim) error {
	c := stateOf(dc)
	if c == nil {
		return nil // it never asked
	}
	return b.finish(ctx, c, 0, func(q *QuorumError) (bool, error) {
		if q.Yes+q.No >= b.quorum {
			return true, nil
		}
		return false, fmt.Errorf("not yet given back: %w", q)
	})
}

// finish ends the claim on all nodes; the name stays taken for d more. It returns what decided says of the nodes
// where the claim held the name (Yes) or did not (No), as soon as that is certain, every node has been told
// once, or ctx has ended.
func (b *backend) finish(ctx context.Context, c *claim, d time.Duration, decided func(*QuorumError) (bool, error)) error {
	next := max(b.tally(c).highest+1, b.time()+lead)
	c.mu.Lock()
	if c.end == nil {
		c.end = &ending{b.clock.Now().Add(d), next, make(chan struct{}, 1), make([]told, len(b.nodes))}
	}
	for i := range c.end.nodes {
		if n := &c.end.nodes[i]; !n.running && !n.held && !n.gone {
			n.running = true
			b.working.Go(func() { b.tell(c, c.votes[i], n) })
		}
	}
	c.mu.Unlock()
	for {
		q := &QuorumError{Nodes: len(b.nodes)}
		c.mu.Lock()
		for _, n := range c.end.nodes {
			switch {
			case n.held:
				q.Yes++
			case n.gone:
				q.No++
			case n.err != nil:
				q.Errs = append(q.Errs, n.err)
			}
		}
		c.mu.Unlock()
		certain, err := decided(q)
		if certain || q.Yes+q.No+len(q.Errs) == q.Nodes {
			return err
		} else if ctx.Err() != nil {
			return cmp.Or(err, ctx.Err())
		}
		select {
		case <-c.end.changed:
		case <-ctx.Done():
		}
	}
}

// tell tells one node that the claim has ended, again and again.
func (b *backend) tell(c *claim, v *vote, n *told) {
	for try := 1; ; try++ {
		v.calls.Lock()
		err := driver.ErrGone
		if !v.at.Touched {
			_ = v.Abandon(b.life, v.at) // asks nothing
		} else {
			err = b.request(v.node, func(ctx context.Context) error {
				return v.Release(ctx, v.at, max(0, c.end.until.Sub(b.clock.Now())), c.end.next)
			})
		}
		v.calls.Unlock()
		c.mu.Lock()
		n.held, n.gone, n.err = err == nil, err == driver.ErrGone, err
		n.running = !n.held && !n.gone && try < endTries && b.closing.Err() == nil
		again := n.running
		c.mu.Unlock()
		select {
		case c.end.changed <- struct{}{}:
		default:
		}
		if !again {
			return
		}
		select {
		case <-time.After(backoff(redisnode.MinPause, redisnode.MaxPause, try)):
		case <-b.closing.Done():
		}
	}
}

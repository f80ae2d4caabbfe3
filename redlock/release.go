package redlock

import (
	"context"
	"fmt"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// endTries is how often a node is told of the end of a claim, for some seconds. One that does not answer for
// longer forgets the claim after its TTL.
const endTries = 6

// Release implements [driver.Driver].
func (b *backend) Release(ctx context.Context, dc *driver.Claim) error { return b.Linger(ctx, dc, 0) }

// Linger implements [driver.Lingerer]. It returns when a majority has said that the claim held the name; the
// other nodes are told in the background.
func (b *backend) Linger(ctx context.Context, dc *driver.Claim, d time.Duration) error {
	said := b.finish(ctx, stateOf(dc), d, func(held, gone int, late bool) bool {
		return held >= b.quorum || gone >= b.quorum || late && held+gone >= b.quorum
	})
	switch held, gone := said.count(); {
	case gone >= b.quorum:
		return driver.ErrGone
	case held+gone >= b.quorum:
		return nil
	}
	return said.failure()
}

// Abandon implements [driver.Driver]. What a minority has of the claim cannot make it a holder; those nodes are
// told in the background.
func (b *backend) Abandon(ctx context.Context, dc *driver.Claim) error {
	c := stateOf(dc)
	if c == nil {
		return nil // it never asked
	}
	told := func(held, gone int, _ bool) bool { return held+gone >= b.quorum }
	said := b.finish(ctx, c, 0, told)
	if held, gone := said.count(); !told(held, gone, false) {
		return fmt.Errorf("not yet given back: %w", said.failure())
	}
	return nil
}

// finish ends the claim on all nodes; the name stays taken for d more. It returns on which of them the claim held
// the name, as soon as that is decided, each has been told once, or ctx has ended.
func (b *backend) finish(ctx context.Context, c *claim, d time.Duration, decided func(held, gone int, late bool) bool) votes {
	next := b.nextToken(c)
	c.mu.Lock()
	c.ended, c.linger = true, max(c.linger, b.clock.Now().Add(d))
	c.mu.Unlock()
	return b.ask(ctx, func(i int) error {
		p := c.places[i]
		err := b.finishAt(c, p, next)
		if !settled(err) && !p.retrying.Swap(true) {
			b.working.Go(func() { b.retry(c, p, next) })
		}
		return err
	}, decided)
}

// finishAt ends the claim at one node, unless that is done. It proposes the token for who comes next there.
func (b *backend) finishAt(c *claim, p *place, next int64) error {
	p.calls.Lock()
	defer p.calls.Unlock()
	switch {
	case settled(p.end):
	case !p.at.Touched:
		_ = p.Abandon(b.life, c.Claim) // asks nothing
		p.end = driver.ErrGone
	default:
		c.mu.Lock()
		left := max(0, c.linger.Sub(b.clock.Now()))
		c.mu.Unlock()
		p.at.Proposed = next
		p.end = b.request(p.node, func(ctx context.Context) error { return p.Linger(ctx, c.Claim, left) })
	}
	return p.end
}

// retry tells a node again and again that the claim has ended.
func (b *backend) retry(c *claim, p *place, next int64) {
	defer p.retrying.Store(false)
	for try := 1; try < endTries; try++ {
		select {
		case <-time.After(backoff(try)):
		case <-b.closing.Done():
			return
		}
		if settled(b.finishAt(c, p, next)) {
			return
		}
	}
}

package redlock

import (
	"context"
	"fmt"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// tries is how often a node is told in the background of the end of a claim, or that it has become lighter, for some
// seconds. One that does not answer for longer forgets a claim that has ended after its TTL.
const tries = 9

// Release implements [driver.Driver].
func (b *backend) Release(ctx context.Context, dc *driver.Claim) error { return b.Linger(ctx, dc, 0) }

// Linger implements [driver.Lingerer]. It returns when a majority has said whether the claim held the name.
func (b *backend) Linger(ctx context.Context, dc *driver.Claim, d time.Duration) error {
	gone, err := b.finish(ctx, stateOf(dc), d, func(held, gone int, late bool) bool {
		return held >= b.quorum || gone >= b.quorum || late && held+gone >= b.quorum
	})
	if err == nil && gone >= b.quorum {
		return driver.ErrGone
	}
	return err
}

// Abandon implements [driver.Driver]. It returns when a majority has been told: what a minority has of the claim cannot
// make it a holder.
func (b *backend) Abandon(ctx context.Context, dc *driver.Claim) error {
	c := stateOf(dc)
	if c == nil {
		return nil // it never asked
	}
	_, err := b.finish(ctx, c, 0, func(held, gone int, _ bool) bool { return held+gone >= b.quorum })
	if err != nil {
		return fmt.Errorf("not yet given back: %w", err)
	}
	return nil
}

// finish ends the claim on all nodes; the name stays taken for d more. It returns on how many the claim did not hold the
// name, as soon as that is decided, each has been told once, or ctx has ended; or an error if a majority has not been told
// by then. Otherwise the other nodes are told in the background.
func (b *backend) finish(ctx context.Context, c *claim, d time.Duration, decided func(held, gone int, late bool) bool) (gone int, err error) {
	next := b.nextToken(c)
	c.mu.Lock()
	c.ended, c.linger = true, max(c.linger, b.clock.Now().Add(d))
	c.mu.Unlock()
	said := b.ask(ctx, func(i int) error { return b.finishAt(c, c.places[i], next) }, decided)
	held, gone := said.count()
	if held+gone < b.quorum {
		return gone, b.failure(said)
	}
	for i, p := range c.places {
		if !settled(said[i]) {
			go b.finishLater(c, p, next)
		}
	}
	return gone, nil
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

// repeat calls f until it returns yes or no, but not for ever; it reports whether it did. Close does not wait for its pauses.
func (b *backend) repeat(f func() error) bool {
	var pause driver.Backoff
	for try := 0; try < tries && b.life.Err() == nil; try++ {
		b.working.Begin()
		vote := f()
		b.working.End()
		if settled(vote) {
			return true
		}
		pause.Sleep(b.life)
	}
	return false
}

// finishLater tells a node again and again that the claim has ended, and then gives it up.
func (b *backend) finishLater(c *claim, p *place, next int64) {
	if b.repeat(func() error { return b.finishAt(c, p, next) }) {
		return
	}
	p.calls.Lock()
	defer p.calls.Unlock()
	p.at.Touched = false
	_ = p.Abandon(b.life, c.Claim) // asks nothing; should the node grant it the name later that is given back
}

package redlock

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// Release gives the lock up on all nodes and returns as soon as a majority has
// said that it was ours. The nodes that have not answered by then hear of it in
// the background, again and again until the lock's time is over.
func (b *backend) Release(ctx context.Context, dc *driver.Claim) error {
	c := dc.State.(*claim)
	c.bids(nil)
	r := b.put(c, &round{
		script: releaseScript,
		gives:  b.newGiving(c, false),
		judge:  judgeRelease,
	})
	b.leave(c) // not before: disown would come first
	if r.wait(ctx) {
		return nil
	}
	replies := r.replies()
	gone, ours := count(replies)
	switch {
	case gone >= b.quorum:
		return driver.ErrGone
	case ours > 0 && gone+ours >= b.quorum:
		return nil
	}
	return failed(ctx, b.quorumError(replies))
}

// Abandon makes sure that nothing of the claim is left on any node that can be
// reached, nor comes of a request that is still on its way. What a minority of nodes
// has that cannot be reached now is taken care of in the background: they hear of it
// as soon as they answer, unless the TTL has removed it before.
func (b *backend) Abandon(ctx context.Context, dc *driver.Claim) error {
	c, _ := dc.State.(*claim)
	if c == nil {
		return nil // never asked for
	}
	k := b.clean(c)
	b.leave(c)
	var weak nodeSet
	for i, n := range b.nodes {
		if n.weak() && weak.len() < len(b.nodes)-b.quorum {
			weak = weak.with(i)
		}
	}
	if missing := k.wait(ctx, 2*b.bound, allNodes(len(b.nodes))&^weak); missing != 0 {
		return fmt.Errorf("%d of %d nodes could not be cleaned yet: %s", missing.len(), len(b.nodes), b.names(missing))
	}
	return nil
}

func (b *backend) names(s nodeSet) string {
	var text string
	for i, n := range b.nodes {
		if s.has(i) {
			if text != "" {
				text += ", "
			}
			text += n.name
		}
	}
	return text
}

// forget is for how long a node remembers that a claim was withdrawn: longer than
// a request can linger in a network.
const forget = time.Minute

// giving is the call that gives up what a claim has, for each node as it needs it.
type giving struct {
	b     *backend
	c     *claim
	token string // for the successor
	waits bool   // it goes on waiting, in the queue
	plain []any
}

func (b *backend) newGiving(c *claim, waits bool) *giving {
	g := &giving{b: b, c: c, waits: waits}
	if b.fenced {
		c.mu.Lock()
		g.token = strconv.FormatInt(max(c.token+1, b.tokens.guess()), 10)
		c.mu.Unlock()
	}
	g.plain = g.build(false, false)
	return g
}

// call is asked for just before the request goes out to node i. What the claim asked
// it before has been answered, or goes out in the same batch.
func (g *giving) call(i int) []any {
	stands, unclear := g.c.stateAt(i)
	if !stands && !unclear {
		return g.plain
	}
	return g.build(true, unclear && !g.waits)
}

func (g *giving) build(stands, unclear bool) []any {
	c := g.c
	keys := []string{c.lock, c.wait, c.clock, c.gone}
	argv := []string{c.head, g.token, c.value, "", ""}
	if g.waits {
		argv[3] = "1"
	}
	switch {
	case unclear:
		argv[4] = strconv.FormatInt((forget + c.TTL).Milliseconds(), 10)
		return releaseScript.call(keys, argv...)
	case stands || g.waits:
		return releaseScript.call(keys[:3], argv[:4]...)
	case g.token != "":
		return releaseScript.call(keys[:3], argv[:2]...)
	}
	return releaseScript.call(keys[:2], argv[0])
}

// answered is called when node i has answered, or has not for as long as it is asked.
func (g *giving) answered(i int) {
	if !g.waits {
		g.b.seek(g.c, i)
	}
}

func judgeRelease(v any) reply {
	if v, ok := v.(int64); ok {
		return reply{yes: v == 1}
	}
	return reply{err: strange(v)}
}

// yield gives back the votes that c has on some nodes, to those who wait there. c
// goes on waiting: nothing may mark it as withdrawn, for it will bid again.
func (b *backend) yield(c *claim, nodes nodeSet) {
	if nodes == 0 {
		return
	}
	c.giveBack(nodes)
	b.pass(c, true, nodes, time.Time{}, nil)
}

// cleanup is the removal of all traces of a claim.
type cleanup struct {
	mu      sync.Mutex
	missing nodeSet
	changed chan struct{} // closed and replaced when missing changes
}

// clean begins it, the first time.
func (b *backend) clean(c *claim) *cleanup {
	c.bids(nil)
	nodes := c.traces()
	c.mu.Lock()
	if c.cleanup != nil {
		defer c.mu.Unlock()
		return c.cleanup
	}
	k := &cleanup{missing: nodes, changed: make(chan struct{})}
	c.cleanup = k
	for i, n := range c.open {
		if n > 0 {
			c.unclear = c.unclear.with(i)
		}
	}
	c.mu.Unlock()
	if nodes == 0 {
		return k
	}
	b.pass(c, false, nodes, time.Now().Add(c.TTL+b.bound), k.cleaned)
	return k
}

func (k *cleanup) cleaned(i int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.missing = k.missing.without(i)
	close(k.changed)
	k.changed = make(chan struct{})
}

// wait returns those of the nodes that are not clean when the bound or ctx is over.
func (k *cleanup) wait(ctx context.Context, bound time.Duration, nodes nodeSet) nodeSet {
	timer := time.NewTimer(bound)
	defer timer.Stop()
	for over := false; ; {
		k.mu.Lock()
		missing, changed := k.missing&nodes, k.changed
		k.mu.Unlock()
		if missing == 0 || over {
			return missing
		}
		select {
		case <-changed:
		case <-timer.C:
			over = true
		case <-ctx.Done():
			over = true
		}
	}
}

// pass is a release that nobody counts.
type pass struct {
	giving *giving
	done   func(i int) // told of every answer; may be nil
}

// pass gives up what c has on the nodes given. What has failed is repeated until then.
func (b *backend) pass(c *claim, waits bool, nodes nodeSet, until time.Time, done func(int)) {
	p := &pass{b.newGiving(c, waits), done}
	for i, n := range b.nodes {
		if nodes.has(i) {
			n.submit(&request{job: p, c: c, i: i, until: until})
		}
	}
}

func (p *pass) command(i int) (*script, []any) { return releaseScript, p.giving.call(i) }

func (p *pass) answered(i int, _ any, _ error, _ bool) {
	p.giving.answered(i)
	if p.done != nil {
		p.done(i)
	}
}

package redlock

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/redisnode"
)

// lead is by how many microseconds a proposed token is ahead of the nodes' time, to make up for the way of the request.
const lead = 50_000

// claim is a claim at all nodes.
type claim struct {
	*driver.Claim
	places []*place // one at each node

	mu      sync.Mutex
	since   int64          // its age in the queues, in the nodes' time
	evicted time.Time      // when somebody last took its places
	ended   bool           // it is being released or abandoned; the name is not asked for any more
	linger  driver.Instant // until when the name then stays taken

	// While it waits:
	alarm *time.Timer // when it looks
	due   time.Time   // the same
	yield bool        // it then lets those go first who are older, also where it is granted
}

// place is a claim at one node.
type place struct {
	*node
	at       *redisnode.Claim
	calls    sync.Mutex  // held during a request about the claim; guards
	end      error       // what the node said to the end of the claim
	retrying atomic.Bool // it is told of that again and again

	// Guarded by claim.mu:
	vote   error            // whether the node has granted the name, by its last answer or news
	said   redisnode.Answer // which was this
	barred driver.Instant   // until then it does not count
	noNews error            // why it cannot tell news
}

func stateOf(c *driver.Claim) *claim {
	own, _ := c.State.(*claim)
	return own
}

func (b *backend) newClaim(dc *driver.Claim) *claim {
	c := &claim{Claim: dc, since: b.time()}
	for _, n := range b.nodes {
		c.places = append(c.places, &place{node: n, at: n.Claim(dc), vote: n.unheard, end: n.unheard})
	}
	dc.State = c
	return c
}

// heard takes down what the node has said, unless it has said something since. It wants claim.mu.
func (p *place) heard(a redisnode.Answer) {
	if a.Now < p.said.Now {
		return
	}
	if a.Granted && p.said.Granted && a.Token == p.said.Token {
		a.Spare = p.said.Spare // is told only once
	}
	p.said, p.vote = a, driver.ErrGone
	if a.Granted {
		p.vote = nil
	}
}

// counts returns whether the node has granted the claim its name, as far as is known. It wants claim.mu.
func (b *backend) counts(p *place) error {
	switch {
	case b.clock.Now() < p.barred:
		return p.unheard
	case p.vote != nil && p.noNews != nil:
		return p.noNews
	}
	return p.vote
}

// votes returns what all nodes say so far to whether the claim holds its name.
func (b *backend) votes(c *claim) votes {
	c.mu.Lock()
	defer c.mu.Unlock()
	said := make(votes, len(c.places))
	for i, p := range c.places {
		said[i] = b.counts(p)
	}
	return said
}

// held returns on how many nodes the claim holds its name.
func (b *backend) held(c *claim) int {
	yes, _ := b.votes(c).count()
	return yes
}

// nextToken returns a token to propose: above all that the claim has at any node, and ahead of the nodes' time.
func (b *backend) nextToken(c *claim) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	token := b.time() + lead
	for _, p := range c.places {
		token = max(token, p.said.Token+p.said.Spare+1)
	}
	return token
}

// agreed returns the grant, and the nodes it comes from, if a majority has written the same token: with the
// tokens above it that are the claim's on all of them, until too few of them may still count. Without
// fencing any tokens are the same.
func (b *backend) agreed(c *claim) (g driver.Grant, nodes []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, first := range c.places {
		g = driver.Grant{Token: first.said.Token, Spare: int64(c.Spare)}
		if !b.fenced {
			g.Token = 0
		}
		nodes = nil
		var sent []driver.Instant
		for i, p := range c.places {
			if b.counts(p) == nil && (p.said.Token == g.Token || !b.fenced) {
				nodes = append(nodes, i)
				g.Spare = min(g.Spare, p.said.Spare)
				sent = append(sent, p.said.Sent)
			}
		}
		if len(nodes) >= b.quorum {
			slices.Sort(sent)
			g.Until = sent[len(sent)-b.quorum].Add(c.TTL)
			return g, nodes
		}
	}
	return driver.Grant{}, nil
}

package redlock

import (
	"sync"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/redisnode"
)

// claim is a claim at all nodes.
type claim struct {
	*driver.Claim
	places []*place // one at each node
	next   look     // for one that waits

	began driver.Instant // when it was made

	mu      sync.Mutex
	since   int64          // its age in the queues, in the nodes' time; 0 before it first queues
	evicted time.Time      // when somebody last took its places
	granted bool           // it holds the name: no node may be asked any more for what can take that away
	ended   bool           // it is being released or abandoned; the name is not asked for any more
	linger  driver.Instant // until when the name then stays taken
}

// place is a claim at one node.
type place struct {
	*node
	at    *redisnode.Claim
	calls sync.Mutex // held during a request about the claim; guards
	end   error      // what the node said to the end of the claim

	// Guarded by claim.mu:
	vote   error            // whether the node has granted the name, by its last answer or news
	said   redisnode.Answer // which was this
	barred driver.Instant   // what it has said before then does not count

	takenUntil int64 // nor what it has said until then, by its own time: a request to yield that was lost may take the name away

	removed time.Time // when the claim removed there what was left of a place that somebody took
}

func stateOf(c *driver.Claim) *claim {
	own, _ := c.State.(*claim)
	return own
}

func (b *backend) newClaim(dc *driver.Claim) *claim {
	c := &claim{Claim: dc, began: b.clock.Now(), next: look{timer: time.NewTimer(0), how: redisnode.Try}}
	for _, n := range b.nodes {
		c.places = append(c.places, &place{node: n, at: n.Claim(dc), vote: errUnheard, end: errUnheard})
	}
	dc.State = c
	return c
}

// heard records a, unless what was recorded since `before` (what the node had said when it was asked) is newer. An older time
// alone proves nothing: the node's clock may have been set back. It wants claim.mu.
func (p *place) heard(a, before redisnode.Answer) {
	if p.said != before && a.Now < p.said.Now {
		return
	}
	p.said, p.vote = a, driver.ErrGone
	if a.Granted {
		p.vote = nil
	}
}

// counts returns whether the node has granted the claim its name, as far as is known. It wants claim.mu.
func (b *backend) counts(p *place) error {
	if settled(p.vote) && (p.said.Sent < p.barred || p.said.Now <= p.takenUntil) {
		return errUnheard
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

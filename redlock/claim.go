package redlock

import (
	"slices"
	"sync"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/redisnode"
)

// claim is a claim at all nodes.
type claim struct {
	*driver.Claim
	votes []*vote // one for each node
	news  chan struct{}

	mu      sync.Mutex
	round   int       // how often all nodes have been asked
	since   int64     // its age in the queues, in the nodes' time
	evicted time.Time // when somebody last took its places
	due     time.Time // when a waiter looks
	yield   bool      // it then lets those go first who are older, also where it is granted
	end     *ending   // once it is being released or abandoned; nothing new is asked then
}

// vote is what one node has said to a claim. What is below calls is guarded by claim.mu.
type vote struct {
	*node
	at    *redisnode.Claim
	calls sync.Mutex // one request at a time

	said     redisnode.Answer // the last answer or news
	answered bool             // to the request of this round
	err      error            // instead of an answer
	noNews   error            // why it cannot tell news
	barred   driver.Instant   // until then it does not count
}

func stateOf(c *driver.Claim) *claim {
	own, _ := c.State.(*claim)
	return own
}

func (b *backend) newClaim(dc *driver.Claim) *claim {
	c := &claim{Claim: dc, news: make(chan struct{}, 1), since: b.time()}
	for _, n := range b.nodes {
		c.votes = append(c.votes, &vote{node: n, at: n.Claim(dc)})
	}
	dc.State = c
	return c
}

// heard takes down what the node has said, unless it has said something since. It wants claim.mu.
func (v *vote) heard(a redisnode.Answer) {
	if a.Now < v.said.Now {
		return
	}
	if a.Granted && v.said.Granted && a.Token == v.said.Token {
		a.Spare = v.said.Spare // is told only once
	}
	v.said = a
}

// holds reports whether the node has granted the name to the claim. It wants claim.mu.
func (b *backend) holds(v *vote) bool { return v.said.Granted && b.clock.Now() >= v.barred }

// tally is how the votes for a claim stand.
type tally struct {
	held    []int // the nodes that have granted it
	written int   // of these, those that have answered in this round
	refused int   // nodes that have answered in this round that another has it
	lasting int   // nodes with an error that no waiting will mend
	highest int64 // the greatest token that is the claim's at any node
}

func (b *backend) tally(c *claim) (t tally) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, v := range c.votes {
		switch held := b.holds(v); {
		case held:
			t.held = append(t.held, i)
			if v.answered {
				t.written++
			}
		case v.answered:
			t.refused++
		}
		if v.noNews != nil || v.err != nil && !redisnode.Transient(v.err) {
			t.lasting++
		}
		t.highest = max(t.highest, v.said.Token+v.said.Spare)
	}
	return t
}

// agreed returns the grant, and the nodes it comes from, if a majority has written the same token: with the
// tokens above it that are the claim's on all of them, until too few of them may still count. Without
// fencing any tokens are the same.
func (b *backend) agreed(c *claim) (g driver.Grant, nodes []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	by := make(map[int64][]int)
	for i, v := range c.votes {
		token := v.said.Token
		if !b.fenced {
			token = 0
		}
		if b.holds(v) {
			by[token] = append(by[token], i)
		}
	}
	for token, nodes := range by {
		if len(nodes) < b.quorum {
			continue
		}
		g = driver.Grant{Token: token, Spare: int64(c.Spare)}
		var sent []driver.Instant
		for _, i := range nodes {
			g.Spare = min(g.Spare, c.votes[i].said.Spare)
			sent = append(sent, c.votes[i].said.Sent)
		}
		slices.Sort(sent)
		g.Until = sent[len(sent)-b.quorum].Add(c.TTL)
		return g, nodes
	}
	return g, nil
}

// failure says why there is no majority.
func (b *backend) failure(c *claim) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := &QuorumError{Nodes: len(c.votes)}
	for _, v := range c.votes {
		switch {
		case v.err != nil:
			e.Errs = append(e.Errs, v.err)
		case v.noNews != nil:
			e.Errs = append(e.Errs, v.noNews)
		case v.said.Granted:
			e.Yes++
		case v.answered:
			e.No++
		}
	}
	return e
}

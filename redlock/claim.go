package redlock

import (
	"slices"
	"sync"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/redisnode"
)

const (
	// coarse is taken off every deadline because Redis counts whole milliseconds.
	coarse = 2 * time.Millisecond
	// barred is for how long a node does not count after a request to yield had no answer: as long
	// as that may still have an effect.
	barred = 6 * time.Second
)

// claim is a claim at all nodes.
type claim struct {
	*driver.Claim
	votes []*vote // one for each node
	news  chan struct{}

	mu      sync.Mutex
	since   int64     // its age in the queues, in the nodes' time
	evicted time.Time // when somebody last took its places
	due     time.Time // when a waiter looks
	yield   bool      // it then lets those go first who are older, also where it is granted
	grant   driver.Grant
	spread  *time.Timer
	end     *ending // once it is being released or abandoned; nothing new is asked then
}

// vote is what one node has said to a claim. What is below calls is guarded by claim.mu.
type vote struct {
	*node
	at    *redisnode.Claim
	calls sync.Mutex // one request at a time

	begun    driver.Instant // before the first request was sent; 0 if none was
	said     redisnode.Answer
	answered bool
	err      error // instead of an answer
	deaf     error // why it cannot tell news

	held         bool // the node has granted the name to the claim
	token, spare int64
	granted      int64          // when, by the node's time
	since        driver.Instant // the node counts the TTL from that moment, or a later one
	barred       driver.Instant // until then it does not count
}

func stateOf(c *driver.Claim) *claim {
	own, _ := c.State.(*claim)
	return own
}

func (b *backend) newClaim(dc *driver.Claim) *claim {
	c := &claim{Claim: dc, votes: make([]*vote, len(b.nodes)), news: make(chan struct{}, 1), since: b.time()}
	for i, n := range b.nodes {
		c.votes[i] = &vote{node: n, at: n.Claim(dc)}
	}
	dc.State = c
	return c
}

// heard takes down an answer to a request to acquire. It wants mu.
func (v *vote) heard(a redisnode.Answer, err error) {
	v.answered, v.err = err == nil, err
	if err != nil {
		return
	}
	v.said = a
	if a.Granted {
		if !v.held || v.token != a.Token {
			v.token, v.spare = a.Token, a.Spare
		}
		v.held, v.granted, v.since = true, a.Now, a.Sent
	} else if v.granted <= a.Now {
		v.held = false
	}
}

// told takes down the news that the node has granted the name. The node began to count then: not
// before the last request that it answered, plus the time that its clock has measured since. It
// wants mu.
func (v *vote) told(e redisnode.Event) {
	if e.Now < v.said.Now {
		return // this is about a holding that has come and gone
	}
	since := v.begun
	if v.said.Now > 0 {
		since = v.said.Sent.Add(time.Duration(e.Now-v.said.Now) * time.Microsecond)
	}
	v.held, v.token, v.spare = true, e.Token, e.Spare
	v.granted, v.since = e.Now, min(since, e.Received)
}

// holds returns the nodes that have granted the name.
func (b *backend) holds(c *claim) (nodes []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, v := range c.votes {
		if v.held && b.clock.Now() >= v.barred {
			nodes = append(nodes, i)
		}
	}
	return nodes
}

// refused returns how many nodes have said that another has the name.
func (c *claim) refused() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range c.votes {
		if v.answered && !v.held {
			n++
		}
	}
	return n
}

// agreed returns the grant if a majority has written the same token: with the tokens above it that
// are the claim's on all of them, until too few of them may still count. Without fencing any tokens
// are the same.
func (b *backend) agreed(c *claim) (g driver.Grant) {
	by := make(map[int64][]*vote)
	nodes := b.holds(c)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range nodes {
		token := int64(0)
		if b.fenced {
			token = c.votes[i].token
		}
		by[token] = append(by[token], c.votes[i])
	}
	for token, votes := range by {
		if len(votes) < b.quorum {
			continue
		}
		g = driver.Grant{Token: token, Spare: int64(c.Spare)}
		var since []driver.Instant
		for _, v := range votes {
			g.Spare = min(g.Spare, v.spare)
			since = append(since, v.since)
		}
		slices.Sort(since)
		g.Until = since[len(since)-b.quorum].Add(c.TTL - coarse)
	}
	return g
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
		case v.deaf != nil:
			e.Errs = append(e.Errs, v.deaf)
		case v.held:
			e.Yes++
		case v.answered:
			e.No++
		}
	}
	return e
}

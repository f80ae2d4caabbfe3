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
	// maxSpare is how many tokens above its own a grant has at most.
	maxSpare = 1000
)

// claim is a claim at all nodes.
type claim struct {
	*driver.Claim
	votes []*vote // one for each node
	news  chan struct{}

	mu     sync.Mutex
	over   bool // it is being released or abandoned: nothing new is asked
	ending *ending
	spread *time.Timer
	token  int64 // that of the grant
	spare  int64

	// For a waiter, until its next look:
	look    bool          // it is to look at once
	handed  bool          // a node has granted it the name
	evicted bool          // somebody took its place in a queue
	in      time.Duration // if not zero it is to look after that
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

	held         bool // the node has granted the name to the claim
	token, spare int64
	granted      int64          // when, by the node's time
	since        driver.Instant // the node counts the TTL from that moment, or a later one
	barred       driver.Instant // until then it does not count
	listening    bool           // somebody waits for the subscription
	deaf         error          // why there can be none
}

func stateOf(c *driver.Claim) *claim {
	own, _ := c.State.(*claim)
	return own
}

func (b *backend) newClaim(dc *driver.Claim) *claim {
	c := &claim{Claim: dc, votes: make([]*vote, len(b.nodes)), news: make(chan struct{}, 1)}
	since := b.time()
	for i, n := range b.nodes {
		c.votes[i] = &vote{node: n, at: n.Claim(dc)}
		c.votes[i].at.Since = since
	}
	dc.State = c
	return c
}

// rouse has a waiter see what is new.
func (c *claim) rouse() {
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// forget has the nodes' answers not count any more, because they are asked again.
func (c *claim) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range c.votes {
		v.answered, v.err = false, nil
	}
}

// heard takes down an answer to a request to acquire. It wants mu.
func (v *vote) heard(a redisnode.Answer, err error) {
	v.answered, v.err = err == nil, err
	if err != nil {
		return
	}
	v.said = a
	switch {
	case a.Granted:
		if !v.held || v.token != a.Token {
			v.token, v.spare = a.Token, a.Spare
		}
		v.held, v.granted, v.since = true, a.Now, a.Sent
	case v.granted <= a.Now:
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

// counts reports whether v is a vote for the claim. It wants mu of the claim.
func (v *vote) counts(now driver.Instant) bool { return v.held && now >= v.barred }

// count returns how many nodes have granted the name and how many others have refused it.
func (b *backend) count(c *claim) (held, refused int) {
	now := b.clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range c.votes {
		switch {
		case v.counts(now):
			held++
		case v.answered:
			refused++
		}
	}
	return held, refused
}

// ballots returns what the nodes said, for redsync.
func (b *backend) ballots(c *claim) []ballot {
	now := b.clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]ballot, len(c.votes))
	for i, v := range c.votes {
		all[i] = ballot{yes: v.counts(now), err: v.err}
	}
	return all
}

// agreed returns the token that a majority has written for the claim, 0 if there is none, with how
// many above it are the claim's on all of them, and the first moment at which too few of them may
// still count.
func (b *backend) agreed(c *claim) (token, spare int64, until driver.Instant) {
	now := b.clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	by := make(map[int64][]driver.Instant)
	for _, v := range c.votes {
		if v.counts(now) {
			key := v.token
			if !b.fenced {
				key = 0
			}
			by[key] = append(by[key], v.since)
		}
	}
	for t, since := range by {
		if len(since) < b.quorum {
			continue
		}
		slices.Sort(since)
		token, spare, until = t, maxSpare, since[len(since)-b.quorum].Add(c.TTL-coarse)
		for _, v := range c.votes {
			if v.counts(now) && v.token == t {
				spare = min(spare, v.spare)
			}
		}
	}
	return token, spare, until
}

// highest returns the greatest token that a node has given the claim.
func (c *claim) highest() (token int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range c.votes {
		token = max(token, v.token)
	}
	return token
}

// failure says why there is no majority.
func (b *backend) failure(c *claim) error {
	now := b.clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	e := &QuorumError{Nodes: len(c.votes)}
	for _, v := range c.votes {
		switch {
		case v.err != nil:
			e.Errs = append(e.Errs, v.err)
		case v.counts(now):
			e.Yes++
		case v.answered:
			e.No++
		}
	}
	return e
}

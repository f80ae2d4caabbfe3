package zookeeper

import (
	"sync"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// contact keeps the moment up to which the session is certain to have been heard of where
// its life is decided.
//
// The leader ends a session, the session timeout after it last heard of it and rounded up
// to its next tick. A server that stands alone hears of it with every request. A follower
// answers reads without the leader and tells it only with its next heartbeat, once in half
// a tick, for whom it heard; cut off from the leader it goes on answering for several
// ticks. So what a follower answered counts only after an answer for which it had to ask the
// leader, to a request sent so much later that the heartbeat had gone through before: both go
// the same way, one after the other.
type contact struct {
	mu      sync.Mutex
	timeout time.Duration
	lag     time.Duration  // how old a follower's news may be; 0 for a server alone
	sure    driver.Instant // sending of the last request that the leader knows of
	heard   []heard        // later requests, oldest first
}

// heard is a request that was answered.
type heard struct{ sent, answered driver.Instant }

// begin starts over with a connection, whose opening always goes to the leader.
func (c *contact) begin(sent driver.Instant, timeout, lag time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timeout, c.lag = timeout, lag
	c.sure = max(c.sure, sent)
	c.heard = c.heard[:0]
}

// alone records that the server has no leader over it.
func (c *contact) alone() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lag = 0
	for _, h := range c.heard {
		c.sure = max(c.sure, h.sent)
	}
	c.heard = c.heard[:0]
}

// answer records that a request sent at one moment was answered at another; leader says
// that the answer took the leader.
func (c *contact) answer(sent, answered driver.Instant, leader bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lag == 0 {
		c.sure = max(c.sure, sent)
		return
	}
	if leader {
		n := 0
		for n < len(c.heard) && c.heard[n].answered <= sent.Add(-c.lag) {
			c.sure = max(c.sure, c.heard[n].sent)
			n++
		}
		c.heard = append(c.heard[:0], c.heard[n:]...)
	}
	if n := len(c.heard); n == 0 || answered.Sub(c.heard[n-1].answered) >= c.lag/16 {
		c.heard = append(c.heard, heard{sent, answered})
	}
	if c.heard[0].sent.Add(c.timeout) < answered { // too old to be of use
		c.heard = append(c.heard[:0], c.heard[1:]...)
	}
}

// until returns the first moment at which the session may expire.
func (c *contact) until() driver.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sure.Add(c.timeout)
}

// stale reports whether until should be moved on by asking the leader.
func (c *contact) stale(now driver.Instant) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return now.Sub(c.sure) > c.lag+c.timeout/10
}

// spent reports whether too little is left before until to begin a holding with.
func (c *contact) spent(now driver.Instant) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return now.Sub(c.sure) > c.timeout*5/8
}

// maxTick is longer than any server ticks unless told otherwise.
const maxTick = 3 * time.Second

// lagFor returns how long a follower may keep its news from the leader: half a tick, and half
// as much again for its threads. Servers do not tell their tick; by default they give no
// session less than two.
func lagFor(tick, timeout time.Duration) time.Duration {
	if tick == 0 {
		tick = min(timeout/2, maxTick)
	}
	return tick * 3 / 4
}

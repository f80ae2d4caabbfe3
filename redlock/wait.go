package redlock

import (
	"sync"
	"time"

	"github.com/seed80cd6120/locker/internal/redisnode"
)

// sameEviction returns within which time the nodes that tell a waiter of an eviction speak of one: longer than a request may take.
func (b *backend) sameEviction() time.Duration {
	return max(5*time.Second, patience*b.bound+time.Second)
}

// fallback returns when a claim that is told nothing looks.
func fallback() time.Duration { return redisnode.Answer{Left: -1}.NextLook() }

// look is when a claim asks for its name again, and how.
type look struct {
	mu    sync.Mutex
	timer *time.Timer
	due   time.Time
	how   redisnode.How
}

// begin begins a look, and returns how to ask. The next is after the fallback interval at the latest.
func (l *look) begin() redisnode.How {
	l.mu.Lock()
	defer l.mu.Unlock()
	how, d := l.how, fallback()
	l.how, l.due = redisnode.Queue, time.Now().Add(d)
	l.timer.Reset(d)
	return how
}

// in has the claim look after d at the latest; how is other than to queue for a reason that must not be forgotten.
func (l *look) in(d time.Duration, how redisnode.How) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if how != redisnode.Queue {
		l.how = how
	}
	if due := time.Now().Add(d); due.Before(l.due) {
		l.due = due
		l.timer.Reset(d)
	}
}

// hear takes news from a node; it does not block.
func (b *backend) hear(c *claim, p *place, a redisnode.Answer) {
	switch {
	case a.Granted:
		c.mu.Lock()
		p.heard(a, redisnode.Answer{})
		c.mu.Unlock()
		if b.held(c) < b.quorum {
			c.next.in(stragglers, redisnode.Yield) // if the other nodes do not follow
		} else {
			c.next.in(0, redisnode.Queue)
		}
		return
	case a.Evicted: // it queues anew, at the end
		c.mu.Lock()
		if now := time.Now(); min(now.Sub(c.evicted), now.Sub(p.removed)) > b.sameEviction() { // the first node to say so
			c.since, c.evicted = b.time(), now
		}
		c.mu.Unlock()
	}
	// Or the subscription was interrupted, or the name stays taken for another time than was known.
	c.next.in(stragglers, redisnode.Queue)
}

package redlock

import (
	"sync"
	"time"

	"github.com/seed80cd6120/locker/internal/redisnode"
)

// sameEviction is within which time the nodes that tell a waiter of an eviction speak of one. It is longer than a
// request may take.
const sameEviction = 5 * time.Second

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
	how, fallback := l.how, redisnode.Answer{Left: -1}.NextLook()
	l.how, l.due = redisnode.Queue, time.Now().Add(fallback)
	l.timer.Reset(fallback)
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
		if now := time.Now(); now.Sub(c.evicted) > sameEviction && now.Sub(p.removed) > sameEviction { // the first node to say so
			c.since, c.evicted = b.time(), now
		}
		c.mu.Unlock()
	}
	// Or the subscription was interrupted, or the name stays taken for another time than was known.
	c.next.in(stragglers, redisnode.Queue)
}

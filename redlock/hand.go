package redlock

import (
	"strconv"
	"strings"
	"time"
)

// stragglers is how long the nodes that have not handed the lock over are waited for
// when one of them has. Too short only means to ask once more than necessary.
const stragglers = 5 * time.Millisecond

// ring is the message with which a node hands the lock over.
type ring struct {
	fixed, name string // of the claim that has it now: the fixed part of its value, and its name
	token       int64  // that was written for it; 0 if none was
}

// parseRing takes apart what release.lua puts together: "TOKEN FIXED LOCK", with "?"
// where no token was written.
func parseRing(text string) (r ring, ok bool) {
	token, rest, _ := strings.Cut(text, " ")
	if len(rest) <= fixedLen || rest[headLen] != '.' || rest[fixedLen] != ' ' {
		return r, false
	}
	r.fixed = rest[:fixedLen]
	if _, r.name, ok = strings.Cut(rest[fixedLen+1:], "}:lock:"); !ok {
		return r, false
	}
	if token != "?" {
		var err error
		r.token, err = strconv.ParseInt(token, 10, 64)
		ok = err == nil
	}
	return r, ok
}

// rung is called with every message, and the node that it comes from.
func (l *bell) rung(i int, text string) {
	r, ok := parseRing(text)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !ok || l.closed { // Close waits for the requests that were made before
		return
	}
	b := l.b
	if c := b.claim(r.fixed[idStart:idEnd]); c != nil {
		c.hand(i, r.token, b.quorum)
		return
	}
	// It is over, and the node had not been told that it no longer waits.
	b.pass(b.reclaim(r.fixed, r.name), false, nodeSet(0).with(i), time.Time{}, nil)
}

// hand notes that node i has handed the lock over to us, and rouses the waiting Acquire when
// it has a majority, or when the others should have done so too.
func (c *claim) hand(i int, token int64, quorum int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.yielded.has(i) {
		// This may have been said before the vote was given back.
		c.look = true
		c.rouse()
		return
	}
	c.handed = c.handed.with(i)
	if token > c.handToken {
		c.handToken, c.written = token, 0
	}
	if token == c.handToken {
		c.written = c.written.with(i)
	}
	if (c.handed | c.ours).len() >= quorum {
		c.waitNoLonger()
		c.rouse()
	} else if c.missing == nil {
		c.missing = time.AfterFunc(stragglers, func() { c.wake(func() { c.look = true }) })
	}
}

// giveBack notes that the votes of these nodes are no longer ours, and that we stand in
// their queues.
func (c *claim) giveBack(nodes nodeSet) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.yielded |= nodes
	c.ours &^= nodes
	c.handed &^= nodes
	c.written &^= nodes
	c.stands |= nodes
}

// beginAnew forgets what has been said so far, because all nodes are about to be asked. It
// returns those that were ours, as far as we knew.
func (c *claim) beginAnew() (had nodeSet) {
	c.mu.Lock()
	defer c.mu.Unlock()
	had = c.ours | c.late | c.handed
	c.ours, c.late, c.handed, c.written, c.handToken = 0, 0, 0, 0, 0
	c.look, c.stirred = false, 0
	c.waitNoLonger()
	return had
}

// has: node i is ours, as far as we know.
func (c *claim) has(i int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return (c.ours | c.handed).has(i)
}

// waitNoLonger ends the waiting for other nodes. It wants mu.
func (c *claim) waitNoLonger() {
	if c.missing != nil {
		c.missing.Stop()
		c.missing = nil
	}
}

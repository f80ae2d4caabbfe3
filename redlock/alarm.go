package redlock

import (
	"sync"
	"time"
)

// alarm is when to look at the requests that linger, at all nodes together: most of them
// have been taken back by then, and one timer is enough to find that out.
type alarm struct {
	nodes []*node

	mu    sync.Mutex
	timer *time.Timer
	at    time.Time // when it rings; zero if it does not
}

// set has it ring at that time, if it does not ring before.
func (a *alarm) set(at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.at.IsZero() && !at.Before(a.at) {
		return
	}
	a.at = at
	if d := time.Until(at); a.timer == nil {
		a.timer = time.AfterFunc(d, a.ring)
	} else {
		a.timer.Reset(d)
	}
}

func (a *alarm) ring() {
	a.mu.Lock()
	a.at = time.Time{}
	a.mu.Unlock()
	now := time.Now()
	for _, n := range a.nodes {
		if next := n.rouse(now); !next.IsZero() {
			a.set(next)
		}
	}
}

package redlock

import (
	"sync"
	"time"
)

const (
	// ahead is by how much, in microseconds, a guess is above what we believe the
	// nodes' time to be, to make up for the way of the request. Larger would
	// be as correct; what it must stay far below is the time in which a node can
	// come back without its data.
	ahead = 50_000
	// tooFar is how far above their clock the nodes accept a guess.
	tooFar = 1_000_000
)

// tokens guesses tokens. A guess that is above the clocks of a majority of the
// nodes saves a round; a guess that is not does no harm.
type tokens struct {
	start time.Time

	mu    sync.Mutex
	known bool
	time  int64 // the nodes' time less our own, the greatest that was seen
	lead  int64 // by how much others guess higher
}

func (k *tokens) now() int64 { return time.Since(k.start).Microseconds() }

// guess is 0 as long as nothing is known.
func (k *tokens) guess() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.known {
		return 0
	}
	return k.now() + k.time + ahead + k.lead
}

// refused learns from a node that did not take a token: its bucket's clock and its
// time, 0 if it did not say.
func (k *tokens) refused(token, clock, now int64) {
	if now == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	own := k.now()
	if d := now - own; !k.known || d > k.time || token > max(clock, now)+tooFar {
		k.known, k.time, k.lead = true, d, 0
	}
	// Somebody else's guess, made a moment ago, was higher. Guess as high from now
	// on, and not higher, or else we would drive each other up.
	if lead := clock - (own + k.time + ahead); lead > k.lead && lead < tooFar {
		k.lead = lead
	}
}

// heard learns from a node that said what time it is.
func (k *tokens) heard(now int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if d := now - k.now(); !k.known || d > k.time {
		k.known, k.time = true, d
	}
}

// stamp is the time in microseconds by which waiters are ordered.
func (k *tokens) stamp() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.known {
		return time.Now().UnixMicro()
	}
	return k.now() + k.time
}

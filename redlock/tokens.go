package redlock

import (
	"sync"
	"time"
)

const (
	// ahead is by how much, in microseconds, a guess is above what we believe the
	// nodes' clocks to be, to make up for the way of the request. Larger would
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

	mu     sync.Mutex
	known  bool
	offset int64 // the nodes' clock less our own, the greatest that was seen
}

func (k *tokens) now() int64 { return time.Since(k.start).Microseconds() }

// guess is 0 as long as nothing is known.
func (k *tokens) guess() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.known {
		return 0
	}
	return k.now() + k.offset + ahead
}

// refused learns from a node that did not take token because of its clock.
func (k *tokens) refused(token, clock int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	offset := clock - k.now()
	if !k.known || offset > k.offset || token > clock+tooFar {
		k.known = true
		k.offset = offset
	}
}

// stamp is the time in microseconds by which waiters are ordered.
func (k *tokens) stamp() int64 {
	if t := k.guess(); t != 0 {
		return t - ahead
	}
	return time.Now().UnixMicro()
}

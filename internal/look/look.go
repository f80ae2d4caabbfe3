// Package look says when a waiter asks by itself, whatever it was told.
package look

import (
	"math/rand/v2"
	"time"
)

// Fallback is how often a waiter asks at least. A server keeps three times as long a queue at which nobody has asked.
const Fallback = 20 * time.Second

// In returns when a waiter asks next: when the first holding is over, if it is not renewed, or when the waiter has not asked for
// long. left is how long that holding lasts yet, less than zero if it is not known. first says whether no other waits before it.
func In(left time.Duration, first bool) time.Duration {
	at := Fallback + rand.N(Fallback/4)
	if left >= 0 {
		at = min(at, left+Jitter(first))
	}
	return at
}

// Jitter returns how long after the end of a holding a waiter asks. The first in the queue asks at once. The others
// leave it the time to, but within a second one of them stands in for it.
func Jitter(first bool) time.Duration {
	if first {
		return 5*time.Millisecond + rand.N(20*time.Millisecond)
	}
	return 300*time.Millisecond + rand.N(500*time.Millisecond)
}

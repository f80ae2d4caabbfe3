// Package eventually waits, in tests, for what no event tells: the state of a server.
package eventually

import (
	"testing"
	"time"
)

// Is looks until it is so, for a minute.
func Is(t testing.TB, what string, so func() bool) {
	t.Helper()
	Within(t, time.Minute, what, so)
}

// Within is Is with another patience. It looks less often the longer it has waited.
func Within(t testing.TB, d time.Duration, what string, so func() bool) {
	t.Helper()
	for began := time.Now(); !so(); {
		waited := time.Since(began)
		if waited > d {
			t.Fatalf("not within %v: %s", d, what)
		}
		time.Sleep(min(max(2*time.Millisecond, waited/8), 50*time.Millisecond))
	}
}

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

// Within is Is with another patience.
func Within(t testing.TB, d time.Duration, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(d); !so(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", d, what)
		}
	}
}

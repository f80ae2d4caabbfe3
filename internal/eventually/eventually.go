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

// looks is how often it is looked at least: on a machine that is late one look may take longer than the patience.
const looks = 10

// Within is Is with another patience. It looks less often the longer it has waited.
func Within(t testing.TB, d time.Duration, what string, so func() bool) {
	t.Helper()
	began := time.Now()
	for look := 1; !so(); look++ {
		waited := time.Since(began)
		if waited > d && look >= looks {
			t.Fatalf("not within %v: %s", d, what)
		}
		time.Sleep(min(max(2*time.Millisecond, waited/8), 50*time.Millisecond))
	}
}

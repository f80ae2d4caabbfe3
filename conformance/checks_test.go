package conformance

import (
	"errors"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/internal/lateness"
)

// A case that looks again, on a machine that is late, leaves itself the time to look whether something is left on the server.
func TestLooksAgainOnlyInTime(t *testing.T) {
	late := lateness.Start(time.Nanosecond) // to it every machine is late
	defer late.Stop()
	c := &C{tb: t, b: &Backend{TTL: time.Millisecond}, late: late, ctx: t.Context(), end: time.Now().Add(cleanupBound + time.Second)}
	looks := 0
	c.whileLiving(func(time.Duration) error {
		looks++
		time.Sleep(500 * time.Millisecond)
		return errors.New("lost")
	})
	if looks != 1 || !c.undecided {
		t.Errorf("looked %d times, want once; came to no verdict: %v", looks, c.undecided)
	}
}

package conformance

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/internal/eventually"
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

// What has to come within a time may come later by as much as the machine is late.
func TestWithinGrowsWithLateness(t *testing.T) {
	c := &C{late: alwaysLate(t), ctx: t.Context()}
	start := time.Now()
	if !c.within(time.Millisecond, func() bool { return time.Since(start) > 200*time.Millisecond }) {
		t.Error("it did not wait for what came late")
	}
}

// A case that was broken off because the machine is late does not take it for a failure that it can no longer look for
// what is left.
func TestNothingLeftWithoutAnswer(t *testing.T) {
	late := lateness.Start(time.Nanosecond) // to it every machine is late
	defer late.Stop()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h := &Harness{Leftovers: func(ctx context.Context, _ string) ([]string, error) { return nil, ctx.Err() }}
	c := &C{tb: t, b: &Backend{TTL: time.Nanosecond}, h: h, cs: &testCase{name: "X", promise: 1}, late: late, ctx: ctx}
	eventually.Is(t, "the machine is late", func() bool { return late.Worst(c.begun) > 0 })
	c.nothingLeft(time.Millisecond)
	if !c.undecided {
		t.Error("it came to a verdict")
	}
}

// A lock of whose TTL little was left is lost by right on a machine that is late, however long the TTL is.
func TestLostByRight(t *testing.T) {
	onTime := lateness.Start(time.Hour)
	onTime.Stop()
	for name, x := range map[string]struct {
		late *lateness.Meter
		left time.Duration
		want bool
	}{
		"late, and its time is over": {alwaysLate(t), -time.Millisecond, true},
		"late, and its time is not":  {alwaysLate(t), time.Minute, false},
		"on time":                    {onTime, -time.Millisecond, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := &C{tb: t, b: &Backend{TTL: time.Hour}, late: x.late}
			h := until{deadline: time.Now().Add(x.left)}
			if c.lostByRight(h) != x.want {
				t.Errorf("%t, want %t", !x.want, x.want)
			}
		})
	}
}

// until is a lock of which only the deadline is known.
type until struct {
	Holding
	deadline time.Time
}

func (u until) Deadline() time.Time { return u.deadline }

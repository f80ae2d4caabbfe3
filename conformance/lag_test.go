package conformance

import (
	"testing"
	"testing/synctest"
	"time"
)

// A limit on time is widened by the delays of this machine: those that were seen, and
// that of a goroutine that has not run yet.
func TestLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, begin := newLag(), time.Now()
		g.due = begin
		const late = 50 * time.Millisecond
		time.Sleep(late)
		if got := g.since(begin); got != late {
			t.Errorf("not run for %v: late by %v", late, got)
		}
		g.sample()
		if got := g.since(begin); got != late {
			t.Errorf("run after %v: late by %v", late, got)
		}
		if got := g.slack(begin); got <= late {
			t.Errorf("limits are widened by %v", got)
		}

		stop := g.start()
		defer stop()
		begin = time.Now()
		time.Sleep(time.Second)
		if got := g.since(begin); got > lagStep {
			t.Errorf("on a machine that is never late: %v", got)
		}
	})
}

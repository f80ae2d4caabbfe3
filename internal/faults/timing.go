package faults

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/lateness"
	"github.com/seed80cd6120/locker/internal/stamp"
)

// What is asked of times is asked fairly: a machine that is late does not make a row fail.

// pulse measures when this process does not run, because it is stopped or the machine has other things to do.
var pulse *lateness.Meter

const (
	// late is how long after the end of its ctx a call may return on a loaded machine. The
	// promise is 100 ms; conformance tests that, on a machine that is quiet.
	late = time.Second
	// noise is what a machine with other things to do may add to a time.
	noise = 1500 * time.Millisecond
)

// inTime reports whether something that happened took no longer than within, with what the machine was late since it
// began.
func inTime(took, within time.Duration, began time.Time) bool {
	return took <= within || took <= within+pulse.Slack(began)
}

// InTime asserts that something that began then, and has happened by now, took no longer than within.
func (x *Exam) InTime(what string, began time.Time, within time.Duration) {
	x.Helper()
	if took := time.Since(began); !inTime(took, within, began) {
		x.unlessLate(began, "%s took %v, want %v at the most", what, took, within)
	}
}

// Soon asserts that a call returned by the end of its ctx and a second.
func (x *Exam) Soon(what string, began time.Time, within time.Duration) {
	x.Helper()
	x.InTime(what, began, within+late)
}

// grantedSoon asserts that a lock was granted soon after a moment, on the clock of package history.
func (x *Exam) grantedSoon(h *Holding, at int64, within time.Duration) {
	x.Helper()
	if took := time.Duration(h.grant - at); !inTime(took, within, moment(at)) {
		x.unlessLate(moment(at), "the next holder had the lock after %v, want %v at the most", took, within)
	}
}

// moment is a time on the clock of package history.
func moment(at int64) time.Time { return time.Now().Add(-time.Duration(stamp.Now() - at)) }

// again begins the row again, because something is so that can only have come of a machine that is late. At the sixth time
// it is a defect. What such a machine does not excuse is judged all the same; see safe.
func (x *Exam) again(why string) {
	x.Helper()
	if x.tries.Add(1) > 5 {
		x.Fatalf("%s, again", why)
	}
	x.Logf("%s: the row begins again", why)
	panic(errAgain)
}

// lostTooSoon begins the row again if the last holder of a name has lost it, which somebody was to wait for: a machine that is
// late renews it too late. Or has given it back, where it was to pass it on: what was renewed too late is not passed on.
func (x *Exam) lostTooSoon(name string) {
	x.Helper()
	x.mu.Lock()
	h := x.granted[name]
	x.mu.Unlock()
	if h != nil && h.hasLost() {
		x.again(h.user() + " lost the lock before anybody came to wait")
	}
	if h, here := h.(*Holding); here && h.lookForLoss() {
		x.again(h.user() + " gave the lock back before anybody came to wait")
	}
}

// holder is a Holding or a Remote.
type holder interface {
	user() string
	hasLost() bool
}

func (h *Holding) user() string { return h.p.Name }
func (r *Remote) user() string  { return r.p.Name }

func (h *Holding) hasLost() bool { h.lookForLoss(); return h.LostAt() != 0 }
func (r *Remote) hasLost() bool  { return errors.Is(r.Look(), locker.ErrLost) }

// grants notes who holds a name, for lostTooSoon.
func (x *Exam) grants(name string, h holder) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.granted[name] = h
}

// StillHolds asserts that a holder was not disturbed. Where the machine has been late, and so renewed the lock too late, the row
// begins again.
func (x *Exam) StillHolds(h *Holding, who string) {
	x.Helper()
	if h.Look() != nil {
		x.lost(h, who+" lost the lock")
	}
}

// lost fails the row because a lock was lost that is still to be held, or begins it again.
func (x *Exam) lost(h *Holding, what string) {
	x.Helper()
	x.unlessLate(moment(h.grant), "%s", what)
}

// unlessLate fails the row, or begins it again if the machine was late: for what is not about safety. Only the goroutine of
// the row may call it.
func (x *Exam) unlessLate(began time.Time, format string, args ...any) {
	x.Helper()
	x.againIfLate(began, format, args...)
	x.Errorf(format, args...)
}

// fatalUnlessLate is unlessLate for what ends the row.
func (x *Exam) fatalUnlessLate(began time.Time, format string, args ...any) {
	x.Helper()
	x.againIfLate(began, format, args...)
	x.Fatalf(format, args...)
}

// againIfLate begins the row again if the machine was late since a TTL before a moment: the requests of that time, too, decide
// how long a session lasts, and the servers may have been much later.
func (x *Exam) againIfLate(began time.Time, format string, args ...any) {
	x.Helper()
	if pulse.Worst(began.Add(-x.Backend.TTL)) > lateness.Limit {
		x.again(fmt.Sprintf(format, args...) + ", on a machine that is late")
	}
}

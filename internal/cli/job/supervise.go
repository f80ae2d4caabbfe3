//go:build unix

package job

import (
	"fmt"
	"syscall"
	"time"
)

const (
	// lookInterval is the longest time between two comparisons of the clock with the lock's
	// deadline. Timers do not run while the machine sleeps.
	lookInterval = 100 * time.Millisecond
	// groupInterval is how often a group whose first process has ended is asked whether it is empty.
	groupInterval = 10 * time.Millisecond
)

// running is a command that runs.
type running struct {
	*Command
	lock     Lock
	group    group
	received <-chan syscall.Signal
	states   <-chan syscall.WaitStatus
	terminal *terminal

	result   Result
	stopping bool      // SIGTERM or SIGKILL was sent, because of the lock
	killAt   time.Time // if stopping
	killed   bool      // SIGKILL was sent
	suspend  bool      // SIGTSTP was received: stop when the command has
}

// supervise waits for the end of the command, and returns how it ended.
func (r *running) supervise() Result {
	timer := time.NewTimer(r.look())
	defer timer.Stop()
	lost := r.lock.Context().Done()
	for {
		var sig syscall.Signal
		var state syscall.WaitStatus
		changed := false
		select {
		case sig = <-r.received:
		case state, changed = <-r.states:
		case <-lost:
			lost = nil
		case <-timer.C:
		}
		if changed && !state.Stopped() {
			return r.ended(state)
		}
		// Whatever woke this process, it may have been stopped for long: first of all the deadline.
		timer.Reset(r.look())
		switch {
		case changed:
			r.stopped(state.StopSignal())
		case sig != 0:
			r.pass(sig)
		}
	}
}

// look compares the clock with the lock's deadline and stops the command when it is time to; it returns
// when to look again.
func (r *running) look() time.Duration {
	left := time.Until(r.lock.Deadline())
	switch {
	case r.killed:
		return lookInterval
	case r.lost() || r.stopping && !time.Now().Before(r.killAt):
		if !r.stopping {
			r.Stopping("the lock was lost: the command gets SIGKILL")
		}
		r.stopping, r.killed = true, true
		r.group.signal(syscall.SIGKILL)
		return lookInterval
	case r.stopping:
		left = time.Until(r.killAt)
	case left <= r.Grace:
		r.Stopping(fmt.Sprintf("the lock could not be renewed: the command gets SIGTERM, and SIGKILL in %v",
			left.Round(time.Millisecond)))
		r.stopping, r.killAt = true, time.Now().Add(left)
		r.group.signal(syscall.SIGTERM)
		r.group.signal(syscall.SIGCONT) // a stopped process acts on SIGTERM when it goes on
	default:
		left -= r.Grace
	}
	return max(min(left, lookInterval), time.Millisecond)
}

// lost reports whether the lock is lost, by the clock.
func (r *running) lost() bool { return r.lock.Context().Err() != nil }

// ended returns the result of a command that has ended. If it was stopped, or if its lock is lost, nobody
// of its group is left then.
func (r *running) ended(state syscall.WaitStatus) Result {
	r.result.Status = status(state)
	r.result.Lost = r.stopping || r.lost()
	if !r.result.Lost {
		return r.result
	}
	for !r.killed && r.group.signal(0) {
		r.look()
		time.Sleep(groupInterval)
	}
	r.group.signal(syscall.SIGKILL) // also those who joined since the last time
	return r.result
}

// pass passes a signal on to the command.
func (r *running) pass(sig syscall.Signal) {
	switch {
	case sig == syscall.SIGCONT:
		r.resume()
		return
	case sig == syscall.SIGTSTP:
		r.suspend = true
	case asksForEnd(sig):
		r.result.Signal = sig
	}
	r.group.signal(sig)
}

// stopped does what there is to do when the command was stopped by a signal. If it wants the terminal it gets it,
// if this process has it to give, or goes on if it has got it meanwhile. If it was stopped for the terminal's sake this process stops as well, so
// that the shell notices. A command stopped by SIGSTOP keeps its lock until somebody lets it go on.
func (r *running) stopped(by syscall.Signal) {
	wantsTerminal := by == syscall.SIGTTIN || by == syscall.SIGTTOU
	switch {
	case r.stopping:
		r.group.signal(syscall.SIGCONT)
	case wantsTerminal && (r.terminal.isWith(r.group) || r.terminal.give(r.group)):
		r.group.signal(syscall.SIGCONT)
	case r.suspend, r.terminal != nil && (wantsTerminal || by == syscall.SIGTSTP):
		stopProcess(!r.suspend)
		r.suspend = false
		r.look()
		r.resume()
	}
}

// resume lets the command go on after this process was stopped or told to go on, unless the lock is lost.
func (r *running) resume() {
	if !r.killed {
		r.terminal.give(r.group)
		r.group.signal(syscall.SIGCONT)
	}
}

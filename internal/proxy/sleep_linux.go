package proxy

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// sleeper sleeps for less than a millisecond as precisely as the system can: a timer of Go's may be a millisecond late
// where the process is idle. It is for one goroutine, which gets a thread of its own with the first sleep.
type sleeper struct{ ready bool }

// sleep returns after d, or before when a signal comes.
func (s *sleeper) sleep(d time.Duration) {
	if !s.ready {
		runtime.LockOSThread() // never undone: the thread ends with the goroutine
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
		s.ready = true
	}
	ts := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&ts, nil)
}

//go:build !linux

package locker

// bootTime is known on Linux only; elsewhere it depends on the system whether the
// monotonic clock counts the time asleep.
func bootTime() (nanoseconds int64, ok bool) { return 0, false }

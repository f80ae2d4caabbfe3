//go:build !linux

package locker

import "github.com/seed80cd6120/locker/driver"

// SystemClock is the clock of every Locker made without WithClock. Here it is
// the monotonic clock of package time; whether that counts the time during which
// the machine was suspended depends on the system.
func SystemClock() driver.Clock { return TimeClock{} }

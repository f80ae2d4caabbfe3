package locker

import (
	"syscall"
	"unsafe"

	"github.com/seed80cd6120/locker/driver"
)

const clockBoottime = 7

// SystemClock is the clock of every Locker made without WithClock. On Linux it
// goes on while the machine is suspended, which the clock behind time.Since does
// not: a lock whose time ran out during the sleep is lost at the first look.
func SystemClock() driver.Clock { return bootClock{} }

type bootClock struct{}

func (bootClock) Now() driver.Instant {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&ts)), 0)
	if errno != 0 {
		return sinceStart()
	}
	return driver.Instant(ts.Nano())
}

package locker

import (
	"syscall"
	"unsafe"
)

const clockBoottime = 7

// bootTime reads the clock that goes on while the machine is suspended.
func bootTime() (nanoseconds int64, ok bool) {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Nano(), errno == 0
}

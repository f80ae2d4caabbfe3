package history

import (
	"syscall"
	"unsafe"
)

const clockMonotonic = 1

// Now reads the monotonic clock of the machine, in nanoseconds. All processes read
// the same one.
func Now() int64 {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&ts)), 0)
	if errno != 0 {
		panic(errno)
	}
	return ts.Nano()
}

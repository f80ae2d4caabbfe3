package child

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// Stop stops a child with SIGSTOP; it returns when the child has stopped, which may be some time after the signal was
// sent.
func Stop(pid int) error {
	err := syscall.Kill(pid, syscall.SIGSTOP)
	for again := err == nil; again; again = err == unix.EINTR {
		err = unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil)
	}
	return err
}

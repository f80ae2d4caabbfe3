package servers

import (
	"io"
	"syscall"
)

// childAttr makes the system kill the child when its parent has died, and keeps the
// terminal's Ctrl-C from it: the parent decides.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

func guardChild(int) (io.Closer, error) { return nil, nil }

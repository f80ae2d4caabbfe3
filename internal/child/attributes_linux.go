package child

import "syscall"

// Attributes make the system kill a child, stopped or not, whose parent has died.
func Attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

//go:build unix && !linux

package job

import "syscall"

// childAttributes puts the command into a process group of its own. If this process is killed it lives on.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

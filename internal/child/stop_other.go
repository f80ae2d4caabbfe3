//go:build !linux

package child

import "syscall"

// Stop stops a child with SIGSTOP. Here it does not wait until the child has stopped.
func Stop(pid int) error { return syscall.Kill(pid, syscall.SIGSTOP) }

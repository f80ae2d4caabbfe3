//go:build !linux

package child

import "syscall"

// Attributes are none: here a child has to notice by itself that its parent has died.
func Attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

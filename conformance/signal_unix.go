//go:build unix

package conformance

import (
	"os"
	"syscall"
)

const canSignal = true

func suspend(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }
func proceed(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

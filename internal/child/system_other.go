//go:build !unix

package child

import (
	"os"
	"syscall"
)

// CanPause says whether this system can stop a process.
const CanPause = false

const sigStop, sigCont = syscall.Signal(19), syscall.Signal(18) // which Signal refuses

func endWithParent(*syscall.SysProcAttr)    {}
func guard(int) (release func(), err error) { return func() {}, nil }
func stop(p *os.Process) error              { return p.Signal(sigStop) }
func childrenOf(int) string                 { return "" }
func hasEnded(*os.Process) bool             { return true }

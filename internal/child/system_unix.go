//go:build unix && !linux

package child

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// CanPause says whether this system can stop a process.
const CanPause = true

const sigStop, sigCont = syscall.SIGSTOP, syscall.SIGCONT

func endWithParent(*syscall.SysProcAttr) {}

// guard lets a shell wait for the end of a pipe whose other end this process holds. When this process dies, the system
// closes it and the shell kills the child; release sends the shell away.
func guard(pid int) (release func(), err error) {
	cmd := exec.Command("/bin/sh", "-c", fmt.Sprintf("read word || kill -9 %d", pid))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return func() {}, err
	}
	return func() {
		_, _ = fmt.Fprintln(pipe, "done")
		_ = cmd.Wait()
	}, nil
}

// stop sends SIGSTOP. Here it does not wait until the child has stopped.
func stop(p *os.Process) error { return p.Signal(sigStop) }

// childrenOf returns the ids, in words, of the processes that a child has started and that live.
func childrenOf(pid int) string {
	text, _ := exec.Command("pgrep", "-P", strconv.Itoa(pid)).Output()
	return string(text)
}

// hasEnded reports whether a process that was killed is gone.
func hasEnded(p *os.Process) bool { return p.Signal(syscall.Signal(0)) != nil }

package child

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// CanPause says whether this system can stop a process.
const CanPause = true

const sigStop, sigCont = syscall.SIGSTOP, syscall.SIGCONT

// endWithParent has the system kill a child, stopped or not, whose parent has died.
func endWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// guard does what endWithParent does where the system has nothing for it; release ends that.
func guard(int) (release func(), err error) { return func() {}, nil }

// stop sends SIGSTOP; it returns when the child has stopped, which may be some time after the signal was sent.
func stop(p *os.Process) error {
	err := p.Signal(sigStop)
	for again := err == nil; again; again = err == unix.EINTR {
		err = unix.Waitid(unix.P_PID, p.Pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil)
	}
	return err
}

// childrenOf returns the ids, in words, of the processes that a child has started and that live.
func childrenOf(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	return string(text)
}

// hasEnded reports whether a process that was killed is gone, or nothing is left of it but how it ended.
func hasEnded(p *os.Process) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Pid))
	_, state, _ := strings.Cut(string(text), ") ")
	return err != nil || strings.HasPrefix(state, "Z") || strings.HasPrefix(state, "X")
}

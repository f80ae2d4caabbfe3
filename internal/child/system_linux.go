package child

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

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

// childrenOf returns the processes that a child has started and that live.
func childrenOf(pid int) (all []int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for word := range strings.FieldsSeq(string(text)) {
		if n, err := strconv.Atoi(word); err == nil {
			all = append(all, n)
		}
	}
	return all
}

// awaitEnd waits until processes that were killed have let go of what they had.
func awaitEnd(pids []int) {
	for _, pid := range pids {
		for deadline := time.Now().Add(time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			if _, state, _ := strings.Cut(string(text), ") "); err != nil || strings.HasPrefix(state, "Z") {
				break
			}
		}
	}
}

//go:build !linux

package servers

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// guardChild lets a shell wait for the end of a pipe whose other end this process
// holds. When this process dies, the system closes it and the shell kills the child.
func guardChild(pid int) (io.Closer, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	cmd := exec.Command("/bin/sh", "-c", fmt.Sprintf("read word || kill -9 %d", pid))
	cmd.Stdin = r
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		w.Close()
		return nil, err
	}
	return &guard{w, cmd}, nil
}

type guard struct {
	pipe *os.File
	cmd  *exec.Cmd
}

// Close sends the shell away without killing anybody.
func (g *guard) Close() error {
	_, _ = g.pipe.WriteString("done\n")
	_ = g.pipe.Close()
	return g.cmd.Wait()
}

// childrenOf returns the processes that a child has started and that live.
func childrenOf(pid int) (all []int) {
	text, _ := exec.Command("pgrep", "-P", strconv.Itoa(pid)).Output()
	for word := range strings.FieldsSeq(string(text)) {
		if n, err := strconv.Atoi(word); err == nil {
			all = append(all, n)
		}
	}
	return all
}

// awaitEnd waits until processes that were killed are gone.
func awaitEnd(pids []int) {
	for _, pid := range pids {
		for deadline := time.Now().Add(time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			if syscall.Kill(pid, 0) != nil {
				break
			}
		}
	}
}

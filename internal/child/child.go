// Package child runs processes that do not outlive this one.
package child

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/seed80cd6120/locker/internal/eventually"
)

// Process is a child that runs or has ended.
type Process struct {
	Family bool // its children are stopped, continued and killed with it

	cmd   *exec.Cmd
	ended chan struct{} // closed when it has ended
	err   error         // then: how

	in   io.WriteCloser // of a child that was started by Open
	out  io.ReadCloser
	said *eventually.Output
}

// Start starts cmd; it returns when the child runs.
func Start(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, ended: make(chan struct{})}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	endWithParent(cmd.SysProcAttr)
	started := make(chan error, 1)
	go func() {
		pprof.SetGoroutineLabels(context.Background()) // those of the caller say who has to wait for its goroutines
		// To Linux the parent is the thread that started the child: it is kept until the child has ended.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		release, err := guard(cmd.Process.Pid)
		if err != nil {
			_ = cmd.Process.Kill()
		}
		started <- err
		p.err = cmd.Wait()
		release()
		close(p.ended)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// Open is Start of a child with which this process talks: Write is what the child reads from its standard input, Read what it
// writes to its standard output. What it writes to standard error is kept for Said.
func Open(cmd *exec.Cmd) (*Process, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, w, err := os.Pipe() // with StdoutPipe what was not read when the child ends would be lost
	if err != nil {
		return nil, err
	}
	defer w.Close()
	said := new(eventually.Output)
	cmd.Stdout, cmd.Stderr = w, said
	p, err := Start(cmd)
	if err != nil {
		return nil, errors.Join(err, in.Close(), out.Close())
	}
	p.in, p.out, p.said = in, out, said
	return p, nil
}

func (p *Process) Read(b []byte) (int, error) {
	n, err := p.out.Read(b)
	if err != nil {
		_ = p.out.Close()
	}
	return n, err
}

func (p *Process) Write(b []byte) (int, error) { return p.in.Write(b) }

// Close ends the child's standard input. What the child writes after that can still be read.
func (p *Process) Close() error { return p.in.Close() }

// Said returns what the child has written to standard error.
func (p *Process) Said() string { return p.said.String() }

// PID returns the child's process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Ended returns a channel that is closed when the child has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Err returns how the child has ended, nil after status 0. It may be called when Ended is closed.
func (p *Process) Err() error { return p.err }

// Running reports whether the child has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// patience is how long a process that was killed may take to end on a machine that does other things too.
const patience = 30 * time.Second

// Pause stops the child; it returns when the child has stopped.
func (p *Process) Pause() error { return p.Signal(sigStop) }

// Resume lets a child that is stopped go on.
func (p *Process) Resume() error { return p.Signal(sigCont) }

// Kill ends the child, stopped or not; it returns when the child has ended.
func (p *Process) Kill() {
	_ = p.Signal(syscall.SIGKILL)
	<-p.ended
}

// Signal sends sig to the child; it returns os.ErrProcessDone if the child has ended.
func (p *Process) Signal(sig syscall.Signal) error {
	switch {
	case !p.Running():
		return os.ErrProcessDone
	case !p.Family && sig == sigStop:
		return stop(p.cmd.Process)
	case !p.Family, sig == syscall.SIGTERM, sig == syscall.SIGINT: // it ends its children itself
		return p.cmd.Process.Signal(sig)
	}
	err := stop(p.cmd.Process) // one that is stopped makes no more children
	var children []*os.Process
	for word := range strings.FieldsSeq(childrenOf(p.PID())) {
		if pid, err := strconv.Atoi(word); err == nil {
			if c, err := os.FindProcess(pid); err == nil {
				children = append(children, c)
				_ = c.Signal(sig)
			}
		}
	}
	if sig != sigStop {
		err = p.cmd.Process.Signal(sig)
	}
	if sig == syscall.SIGKILL { // wait until they have let go of what they had
		for _, c := range children {
			for end := time.Now().Add(patience); !hasEnded(c) && time.Now().Before(end); time.Sleep(time.Millisecond) {
			}
		}
	}
	return err
}

// End sends sig to the child, stopped or not, and waits until it has ended. A child that has not ended after within is killed,
// and has as long again, or patience, to end.
func (p *Process) End(sig syscall.Signal, within time.Duration) error {
	for _, sig := range []syscall.Signal{sig, syscall.SIGKILL} {
		_ = p.Signal(sig)
		_ = p.Resume()
		select {
		case <-p.ended:
			return nil
		case <-time.After(within):
		}
		within = max(within, patience)
	}
	return fmt.Errorf("process %d is still there %v after SIGKILL", p.PID(), within)
}

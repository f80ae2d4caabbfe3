//go:build unix

// Package job runs a command while a lock is held, and sees to it that the command does not live
// when another may hold the lock.
//
// The command gets a process group of its own. When the lock's deadline comes near, because
// renewals fail, the group gets SIGTERM; when the lock is lost it gets SIGKILL. Signals sent to
// this process go on to the group, and the terminal is the group's as long as the command wants it.
//
// What is not covered: a process that leaves the group (setsid, setpgid), what the command leaves
// running in the background when it ends by itself, and the time during which this process is stopped
// (SIGSTOP) and its command is not. When this process is killed, the kernel kills the command too (on Linux;
// not a set-user-ID program such as sudo), but not what the command has started.
package job

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Exit statuses of commands that could not be started, as those of sh.
const (
	StatusNotExecutable = 126
	StatusNotFound      = 127
)

// Lock is what a job needs of the lock that it runs under; a *locker.Lock is one.
type Lock interface {
	Deadline() time.Time
	// Context compares the clock with the deadline each time its Err is asked.
	Context() context.Context
}

// Command says what to run.
type Command struct {
	Path string   // of the program, as Find returns it
	Args []string // the first is the program's name
	Env  []string

	// Grace is how long before the lock's deadline the command gets SIGTERM.
	Grace time.Duration

	// Stopping is told why the command is stopped.
	Stopping func(why string)
}

// Result is how a command ended.
type Result struct {
	// Status is the exit status: that of the command, or 128+n if signal n ended it.
	Status int
	// Lost: the command was stopped because the lock was about to be lost, or the lock was lost
	// by the time at which the command's end was seen.
	Lost bool
	// Signal is the last signal received that asks a program to end, or 0. SIGHUP does not: many programs read their
	// configuration then.
	Signal syscall.Signal
}

// StartError is why a command could not be started.
type StartError struct {
	Status int
	Err    error
}

func (e *StartError) Error() string { return e.Err.Error() }
func (e *StartError) Unwrap() error { return e.Err }

// Find returns the path of a program as sh finds it. The error is a *StartError.
func Find(program string) (string, error) {
	path, err := exec.LookPath(program)
	if err == nil || errors.Is(err, exec.ErrDot) {
		return path, nil
	}
	return "", startError(program, err)
}

// startError makes a *StartError of the reason why a program cannot be run.
func startError(program string, err error) error {
	status := StatusNotExecutable
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		status = StatusNotFound
	}
	var lookup *exec.Error
	if errors.As(err, &lookup) {
		err = lookup.Err
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return &StartError{status, fmt.Errorf("%s: %w", program, err)}
}

// Run runs the command until it has ended, and returns how. If the lock is about to be lost it stops the
// command first. If a signal that ends programs came before, the command is not started. Only one Run is under
// way at any time. The error is a *StartError.
func (c *Command) Run(lock Lock, signals *Signals) (Result, error) {
	received, restore := signals.take()
	defer restore()
	if sig := signals.early; sig != 0 {
		return Result{Status: 128 + int(sig), Signal: sig}, nil
	}

	started, states := c.start()
	child := <-started
	if child.err != nil {
		return Result{}, startError(c.Args[0], child.err)
	}
	r := &running{
		Command: c, lock: lock, group: group(child.pid),
		received: received, states: states,
		terminal: openTerminal(),
	}
	defer r.terminal.close()
	if IsTerminal(os.Stdin) && IsTerminal(os.Stdout) && r.terminal.give(r.group) {
		// It may have been too early for the terminal and stopped.
		r.group.signal(syscall.SIGCONT)
	}
	result := r.supervise()
	r.terminal.takeBack(r.group)
	return result, nil
}

// start starts the command and waits for it. Then it sends each state the command is in, stopped or ended.
func (c *Command) start() (<-chan child, <-chan syscall.WaitStatus) {
	started, states := make(chan child, 1), make(chan syscall.WaitStatus)
	go func() {
		// The kernel kills the command when the thread that started it ends: this one waits for it.
		runtime.LockOSThread()
		pid, err := syscall.ForkExec(c.Path, c.Args, &syscall.ProcAttr{
			Env:   c.Env,
			Files: []uintptr{0, 1, 2},
			Sys:   childAttributes(),
		})
		started <- child{pid, err}
		for err == nil {
			var state syscall.WaitStatus
			if _, err = syscall.Wait4(pid, &state, syscall.WUNTRACED, nil); err == syscall.EINTR {
				err = nil
				continue
			}
			states <- state
			if !state.Stopped() {
				return
			}
		}
	}()
	return started, states
}

// child is a command that was started, or why it could not be.
type child struct {
	pid int
	err error
}

// status returns the exit status that a shell shows.
func status(state syscall.WaitStatus) int {
	if state.Signaled() {
		return 128 + int(state.Signal())
	}
	return state.ExitStatus()
}

// group is a process group, named by the process that was its first.
type group int

// signal sends a signal to all of the group; false if nobody is left.
func (g group) signal(s syscall.Signal) bool {
	return syscall.Kill(-int(g), s) != syscall.ESRCH
}

package faults

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// childAttr makes the system kill a child, stopped or not, whose parent has died.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

type start struct {
	cmd *exec.Cmd
	err chan<- error
}

// starter starts all children from one thread that never ends: Linux takes the end of
// the starting thread for the death of the parent.
var starter = sync.OnceValue(func() chan<- start {
	c := make(chan start)
	go startAll(c)
	return c
})

// prepare starts what stays for the life of this process.
func prepare() { starter() }

func startAll(c <-chan start) {
	runtime.LockOSThread()
	for s := range c {
		s.err <- s.cmd.Start()
	}
}

func startOnThread(cmd *exec.Cmd) error {
	err := make(chan error, 1)
	starter() <- start{cmd, err}
	return <-err
}

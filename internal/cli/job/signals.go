//go:build unix

package job

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// passed are the signals that end a program or mean what the program says. While no command runs they end
// this process.
var passed = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2,
}

// suspendTime is how long a SIGSTOP may take to stop this process.
const suspendTime = 100 * time.Millisecond

// Signals are those that this process receives.
type Signals struct {
	received chan os.Signal
	cancel   context.CancelCauseFunc

	mu    sync.Mutex
	taker chan syscall.Signal // or nil
	early syscall.Signal      // the first that came while nobody took them, or 0
}

// SignalError is the cause of a context that a signal has ended.
type SignalError struct{ Signal syscall.Signal }

func (e *SignalError) Error() string { return fmt.Sprintf("ended by signal: %v", e.Signal) }

// CatchSignals returns a context that ends, with a *SignalError, when a signal comes while no command runs. A signal
// that was ignored when this process started remains ignored, by the command too.
func CatchSignals(ctx context.Context) (context.Context, *Signals) {
	ctx, cancel := context.WithCancelCause(ctx)
	s := &Signals{received: make(chan os.Signal, 16), cancel: cancel}
	for _, sig := range passed {
		if !signal.Ignored(sig) {
			signal.Notify(s.received, sig)
		}
	}
	go s.deliver()
	return ctx, s
}

// deliver hands each signal to the taker; without one it ends the context.
func (s *Signals) deliver() {
	for received := range s.received {
		sig := received.(syscall.Signal)
		s.mu.Lock()
		switch {
		case s.taker != nil:
			select {
			case s.taker <- sig:
			default: // more than a program could tell apart
			}
		case sig == syscall.SIGTSTP, sig == syscall.SIGCONT:
		case s.early == 0:
			s.early = sig
			s.cancel(&SignalError{sig})
		}
		s.mu.Unlock()
	}
}

// take returns a channel of the signals that come from now on, SIGTSTP and SIGCONT among them, until restore
// is called. One that asks for an end and that nobody received by then ends the context.
func (s *Signals) take() (taken <-chan syscall.Signal, restore func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taker = make(chan syscall.Signal, 16)
	signal.Notify(s.received, syscall.SIGCONT)
	if !signal.Ignored(syscall.SIGTSTP) {
		signal.Notify(s.received, syscall.SIGTSTP)
	}
	return s.taker, func() {
		signal.Reset(syscall.SIGTSTP, syscall.SIGCONT)
		s.mu.Lock()
		defer s.mu.Unlock()
		for len(s.taker) > 0 {
			if sig := <-s.taker; s.early == 0 && asksForEnd(sig) {
				s.early = sig
				s.cancel(&SignalError{sig})
			}
		}
		s.taker = nil
	}
}

// asksForEnd reports whether a signal is one by which a person or a service manager ends a program.
func asksForEnd(sig syscall.Signal) bool {
	return sig == syscall.SIGINT || sig == syscall.SIGQUIT || sig == syscall.SIGTERM
}

// stopProcess stops this process as the terminal's suspend character does, if asked to with all of its
// process group; it returns when the process has been told to go on. Where there is no shell that could tell
// it to, because the group is that of the session's leader, it returns at once.
//
// It is SIGSTOP, because SIGTSTP cannot be given back its default action: package signal goes on handling it.
func stopProcess(withGroup bool) {
	if session, err := unix.Getsid(0); err != nil || session == syscall.Getpgrp() {
		return
	}
	pid := syscall.Getpid()
	if withGroup {
		pid = 0
	}
	_ = syscall.Kill(pid, syscall.SIGSTOP)
	time.Sleep(suspendTime)
}

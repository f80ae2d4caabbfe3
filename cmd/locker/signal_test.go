//go:build unix

package main

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/seed80cd6120/locker/internal/eventually"
)

// passed are the signals that go on to the command.
var passed = []syscall.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2,
}

// signalName returns the name of a signal as the shell's kill and trap know it.
func signalName(s syscall.Signal) string { return strings.TrimPrefix(unix.SignalName(s), "SIG") }

// A signal goes on to the command, once, which may act on it.
func TestSignalsAreHandled(t *testing.T) {
	t.Parallel()
	url := place(t)
	for _, signal := range passed {
		t.Run(signal.String(), func(t *testing.T) {
			line := fmt.Sprintf(`trap 'echo got; n=$((n+1))' %s; echo ready; while [ -z "$n" ]; do sleep 0.01; done; sleep 0.2; exit $((40+n))`, signalName(signal))
			p := start(t, url, "run", "x", "-c", line)
			p.says("ready")
			p.signal(signal)
			p.want(41)
		})
	}
}

// A command that does not act on a signal is ended by it, and all of its group.
func TestSignalsEndTheGroup(t *testing.T) {
	url := place(t)
	for _, signal := range passed {
		t.Run(signal.String(), func(t *testing.T) {
			// A shell has its background commands ignore INT and QUIT: so a pipeline.
			p := start(t, url, "run", "x", "-c", `sh -c 'echo inner $$; exec sleep 1000' | cat`)
			inner := p.pid("inner ")
			p.signal(signal)
			p.want(128 + int(signal))
			eventually.Within(t, bound, "the grandchild has ended", func() bool { return !alive(inner) })
		})
	}
	isFree(t, url, "x")
}

// Waiting ends with a signal, and leaves nothing behind.
func TestSignalsEndWaiting(t *testing.T) {
	t.Parallel()
	url := place(t)
	hold(t, url, "x")
	for _, signal := range passed {
		t.Run(signal.String(), func(t *testing.T) {
			for _, command := range []string{"run", "lead"} {
				p := start(t, url, command, "x", "--", "sh", "-c", "echo ran")
				waitsFor(t, url, "x", 1)
				p.signal(signal)
				p.want(128 + int(signal))
				waitsFor(t, url, "x", 0)
				if p.out.String() != "" || p.errs.String() != "" {
					t.Errorf("said %q, %q", p.out.String(), p.errs.String())
				}
			}
		})
	}
}

// nohup works.
func TestIgnoredSignalsRemainIgnored(t *testing.T) {
	url := place(t)
	p := startCommand(t, url, exec.Command("sh", "-c", `trap "" HUP; exec "$LOCKER" run x -c 'echo ready; while ! [ -e '"$0"' ]; do sleep 0.01; done; exit 5'`, t.TempDir()+"/end"))
	p.says("ready")
	p.signal(syscall.SIGHUP)
	end := p.cmd.Args[len(p.cmd.Args)-1]
	must(t, exec.Command("touch", end).Run())
	p.want(5)
}

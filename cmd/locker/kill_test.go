//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/internal/eventually"
)

// kill sends a signal to a process that a test has started.
func kill(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	must(t, syscall.Kill(pid, s))
}

// ends waits until a process has ended.
func ends(t *testing.T, pid int) {
	t.Helper()
	eventually.Within(t, bound, fmt.Sprintf("process %d has ended", pid), func() bool { return !alive(pid) })
}

// beats is a file to which a command appends the time, again and again, for as long as it lives.
type beats string

func newBeats(t *testing.T) beats { return beats(filepath.Join(t.TempDir(), "beats")) }

// line returns a line of shell that begins with some lines of its own, which find the file in $BEATS, and then
// writes to the file.
func (b beats) line(first string) string {
	return "BEATS=" + string(b) + "\n" + first + "\necho pid $$; while :; do date +%s%N >>" + string(b) + "; sleep 0.02; done"
}

// last returns the last moment at which the command was known to live.
func (b beats) last(t *testing.T) time.Time {
	t.Helper()
	text, err := os.ReadFile(string(b))
	must(t, err)
	lines := strings.Fields(string(text))
	if len(lines) == 0 {
		return time.Time{}
	}
	nanoseconds, err := strconv.ParseInt(lines[len(lines)-1], 10, 64)
	must(t, err)
	return time.Unix(0, nanoseconds)
}

// beat waits until the command has written once more.
func (b beats) beat(t *testing.T) {
	t.Helper()
	begin := time.Now()
	eventually.Within(t, bound, "the command writes", func() bool {
		_, err := os.Stat(string(b))
		return err == nil && b.last(t).After(begin)
	})
}

// successor waits for the name and returns when it got it, on the clock of the beats.
func successor(t *testing.T, url, name string) time.Time {
	t.Helper()
	out := command(t, url, "run", name, "--", "date", "+%s%N")
	nanoseconds, err := strconv.ParseInt(strings.TrimSpace(out), 10, 64)
	must(t, err)
	return time.Unix(0, nanoseconds)
}

// The command of a program that is killed dies with it, and the name is free.
func TestKillOfProgram(t *testing.T) {
	t.Parallel()
	for what, url := range places(t) {
		t.Run(what, func(t *testing.T) {
			p := hold(t, url, "x", "--ttl", "20s", "--grace", "0.1")
			child := p.pid("pid ")
			p.signal(syscall.SIGKILL)
			ends(t, child)
			start(t, url, "run", "x", "--", "true").want(0)
		})
	}
}

// A program that is killed while it waits leaves nobody behind who stands in the way.
func TestKillOfWaitingProgram(t *testing.T) {
	t.Parallel()
	for what, url := range places(t) {
		t.Run(what, func(t *testing.T) {
			holder := hold(t, url, "x")
			waiter := start(t, url, "run", "x", "--ttl", "3s", "--grace", "0.1", "--", "true")
			waitsFor(t, url, "x", 1)
			waiter.signal(syscall.SIGKILL)
			waiter.want(128 + 9)
			holder.signal(syscall.SIGTERM)
			holder.want(128 + 15)
			start(t, url, "run", "x", "--", "true").want(0)
		})
	}
}

// A command that is killed frees the name.
func TestKillOfCommand(t *testing.T) {
	url := place(t)
	p := hold(t, url, "x")
	kill(t, p.pid("pid "), syscall.SIGKILL)
	p.want(128 + 9)
	start(t, url, "run", "-n", "x", "--", "true").want(0)
}

// A program that is stopped for longer than its lock lasts, and goes on, kills its command and says so.
func TestStopOfProgramBeyondDeadline(t *testing.T) {
	t.Parallel()
	for what, url := range places(t) {
		t.Run(what, func(t *testing.T) {
			p := hold(t, url, "x", "--ttl", long().String(), "--grace", "0.1")
			child := p.pid("pid ")
			p.signal(syscall.SIGSTOP)
			start(t, url, "run", "x", "--", "true").want(0) // waits until the lock is lost
			p.signal(syscall.SIGCONT)
			p.want(76)
			if alive(child) {
				t.Error("the command lives")
			}
			if !strings.Contains(p.errs.String(), "the lock was lost") {
				t.Errorf("said %q", p.errs.String())
			}
		})
	}
}

// A command whose program is stopped, and goes on, is stopped too until it is known that the lock is held.
func TestStopOfProgramWithinDeadline(t *testing.T) {
	url := place(t)
	p := start(t, url, "run", "x", "--ttl", "5m", "-c", "echo ready; read line <"+fifo(t)+"; exit 7")
	p.says("ready")
	p.signal(syscall.SIGSTOP)
	stopped(t, p.cmd.Process.Pid)
	p.signal(syscall.SIGCONT)
	write(t, p)
	p.want(7)
}

// SIGTSTP stops the command and then the program; SIGCONT lets both go on.
func TestSuspend(t *testing.T) {
	url := place(t)
	// A shell with job control, which could let it go on.
	line := `set -m; "$LOCKER" run x --ttl 5m -c 'echo pid $$; read line <` + fifo(t) + `; exit 7' & echo locker $!; while :; do wait %1; status=$?; [ $status -lt 128 ] && exit $status; done`
	p := startCommand(t, url, exec.Command("bash", "-c", line))
	child, program := p.pid("pid "), p.pid("locker ")
	kill(t, program, syscall.SIGTSTP)
	stopped(t, child)
	stopped(t, program)
	kill(t, program, syscall.SIGCONT)
	write(t, p)
	p.want(7)
}

// A command that is stopped keeps its lock, for as long as its program lives.
func TestStopOfCommand(t *testing.T) {
	t.Parallel()
	url := place(t)
	ttl := long() * 3 / 2 // a renewal before the machine stands still may be a third of it old
	p := hold(t, url, "x", "--ttl", ttl.String(), "--grace", "0.1")
	child := p.pid("pid ")
	kill(t, child, syscall.SIGSTOP)
	stopped(t, child)
	start(t, url, "run", "-w", (ttl + time.Second).String(), "x", "--", "true").want(75)
	kill(t, child, syscall.SIGCONT)
	p.signal(syscall.SIGTERM)
	p.want(128 + 15)
}

// When the server does not answer any more the command gets SIGTERM ahead of the deadline, and SIGKILL at the
// deadline. It has ended before another can hold the name.
func TestStopOfServer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what, first string
		says        string
	}{
		{"a command that ends by SIGTERM", "trap 'echo term; exit 0' TERM", "term"},
		{"a command that ignores SIGTERM", "trap 'echo term' TERM", "term"},
		{"a command with a child that ignores SIGTERM", "(trap 'echo term' TERM; while :; do sleep 0.02; date +%s%N >>$BEATS; done) & trap 'exit 0' TERM", "term"},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			server, url := newRedis(t)
			b := newBeats(t)
			p := start(t, url, "run", "x", "--ttl", "40s", "--grace", "20s", "-c", b.line(c.first))
			p.pid("pid ")
			b.beat(t)
			must(t, server.Pause())
			p.says(c.says)
			p.want(76)
			must(t, server.Resume())
			if next, last := successor(t, url, "x"), b.last(t); !last.Before(next) {
				t.Errorf("the command lived at %v, another held the name at %v", last, next)
			}
			if !strings.Contains(p.errs.String(), "could not be renewed") {
				t.Errorf("said %q", p.errs.String())
			}
		})
	}
}

// The same when the server is killed.
func TestKillOfServer(t *testing.T) {
	t.Parallel()
	server, url := newRedis(t)
	b := newBeats(t)
	p := start(t, url, "run", "x", "--ttl", "20s", "-c", b.line(""))
	b.beat(t)
	must(t, server.Kill())
	p.want(76)
	if alive(p.pid("pid ")) {
		t.Error("the command lives")
	}
}

// A short outage is no matter, neither to a holder nor to a waiter.
func TestShortOutage(t *testing.T) {
	server, url := newRedis(t)
	pipe := fifo(t)
	p := start(t, url, "run", "x", "--ttl", "5m", "-c", "echo ready; read line <"+pipe+"; exit 7")
	p.says("ready")
	waiter := start(t, url, "run", "x", "--ttl", "5m", "-c", "exit 8")
	waitsFor(t, url, "x", 1)
	must(t, server.Pause())
	// What is sent meanwhile stays in the server's sockets.
	must(t, server.Resume())
	write(t, p)
	p.want(7)
	waiter.want(8)
}

// A holder whose name is taken by break loses its command at once.
func TestBreakStopsCommand(t *testing.T) {
	t.Parallel()
	for what, url := range places(t) {
		t.Run(what, func(t *testing.T) {
			p := hold(t, url, "x")
			child := p.pid("pid ")
			token := inspect(t, url, "x").Holders[0].Token
			command(t, url, "break", "x", "--yes", "--token", fmt.Sprint(token))
			p.want(76)
			ends(t, child)
		})
	}
}

// stopped waits until a process is stopped.
func stopped(t *testing.T, pid int) {
	t.Helper()
	eventually.Within(t, bound, fmt.Sprintf("process %d is stopped", pid), func() bool {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return false
		}
		_, state, _ := strings.Cut(string(text), ") ")
		return strings.HasPrefix(state, "T")
	})
}

// fifo makes a pipe with a name, LOCKER_TEST_FIFO of the test, from which a command may read until write.
func fifo(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	must(t, syscall.Mkfifo(path, 0o600))
	return path
}

// write lets the process go on that reads from the fifo in its command line.
func write(t *testing.T, p *process) {
	t.Helper()
	line := p.cmd.Args[len(p.cmd.Args)-1]
	_, path, _ := strings.Cut(line, "<")
	path, _, _ = strings.Cut(path, ";")
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(t, err)
	defer f.Close()
	if _, err := f.WriteString("\n"); err != nil {
		t.Fatal(err)
	}
}

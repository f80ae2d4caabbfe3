//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/child"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/servers"
)

var must = locktest.Must

// binary is the program, built for these tests.
var binary string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "locker-command")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", dir, ".")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n%s", build, err, out)
		return 1
	}
	binary = filepath.Join(dir, "locker")
	// A signal that was ignored would remain so in all programs that are started here.
	for _, sig := range passed {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
	defer servers.StopAll()
	servers.AtOnce(16)
	return m.Run()
}

// bound is how long anything may take on a machine that does other things as well.
const bound = 60 * time.Second

// long is longer than a machine that does other things as well may stand still. With -short, which is for a machine that does not,
// it is half as long.
func long() time.Duration {
	if testing.Short() {
		return 10 * time.Second
	}
	return 20 * time.Second
}

// process is the program, or a shell that runs it, as a test has started it.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	out  eventually.Output
	errs eventually.Output
	done <-chan struct{}
}

// start starts the program with locks at url. It is killed when the test ends, or this process.
func start(t *testing.T, url string, args ...string) *process {
	t.Helper()
	return startCommand(t, url, exec.Command(binary, args...))
}

// startCommand starts cmd, to whose environment it adds that of this process.
func startCommand(t *testing.T, url string, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd}
	cmd.Env = slices.Concat(os.Environ(), cmd.Env, []string{"LOCKER_URL=" + url, "LOCKER=" + binary})
	cmd.Stdout, cmd.Stderr = &p.out, &p.errs
	cmd.WaitDelay = 10 * time.Second // whoever lives on may have the pipe
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	c, err := child.Start(cmd)
	must(t, err)
	p.done = c.Ended()
	t.Cleanup(c.Kill)
	return p
}

// status waits for the end and returns the exit status, 128+n if signal n ended the program itself.
func (p *process) status() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(bound):
		p.t.Fatalf("%v has not ended\nstdout: %s\nstderr: %s", p.cmd.Args, p.out.String(), p.errs.String())
	}
	state := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if state.Signaled() {
		return 128 + int(state.Signal())
	}
	return state.ExitStatus()
}

// want fails the test unless the program ends with the status.
func (p *process) want(status int) {
	p.t.Helper()
	if got := p.status(); got != status {
		p.t.Errorf("%v ended with %d, want %d\nstdout: %s\nstderr: %s", p.cmd.Args[1:], got, status, p.out.String(), p.errs.String())
	}
}

// signal sends a signal to the program alone.
func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// says waits until the program has written a text, and returns all that it has written.
func (p *process) says(text string) string {
	p.t.Helper()
	eventually.Within(p.t, bound, fmt.Sprintf("%v says %q", p.cmd.Args[1:], text), func() bool {
		if strings.Contains(p.out.String(), text) {
			return true
		}
		select {
		case <-p.done:
			if !strings.Contains(p.out.String(), text) {
				p.t.Fatalf("%v has ended with %d\nstdout: %s\nstderr: %s", p.cmd.Args[1:], p.status(), p.out.String(), p.errs.String())
			}
		default:
		}
		return false
	})
	return p.out.String()
}

// pid returns the number that follows a word in what the program has written in a line of its own.
func (p *process) pid(word string) int {
	p.t.Helper()
	p.says(word)
	var pid int
	eventually.Within(p.t, bound, "the process number", func() bool {
		_, rest, _ := strings.Cut(p.out.String(), word)
		n, err := fmt.Sscanf(rest, "%d\n", &pid)
		return n == 1 && err == nil
	})
	return pid
}

// alive reports whether a process exists and is not a zombie.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	out, err := exec.Command("ps", "-o", "stat=", "-p", fmt.Sprint(pid)).Output()
	return err == nil && !strings.HasPrefix(strings.TrimSpace(string(out)), "Z")
}

// queue is what inspect and list write as JSON.
type queue struct {
	Name             string
	Holders, Waiters []position
}

type position struct {
	ID, Owner, Kind string
	Token           int64
}

// inspect returns what locker inspect says of a name.
func inspect(t *testing.T, url, name string) queue {
	t.Helper()
	p := start(t, url, "inspect", "--json", name)
	p.want(0)
	var q queue
	if err := json.Unmarshal([]byte(p.out.String()), &q); err != nil {
		t.Fatalf("%v: %s", err, p.out.String())
	}
	return q
}

// waitsFor waits until so many wait for the name.
func waitsFor(t *testing.T, url, name string, waiters int) {
	t.Helper()
	until(t, url, name, fmt.Sprintf("%d wait for %s", waiters, name), func(queue []locker.Position) bool {
		n := 0
		for _, p := range queue {
			if !p.Held {
				n++
			}
		}
		return n == waiters
	})
}

// isFree waits until nobody holds the name or waits for it.
func isFree(t *testing.T, url, name string) {
	t.Helper()
	until(t, url, name, name+" is free", func(queue []locker.Position) bool { return len(queue) == 0 })
}

// until looks at the queue of a name, without a process of its own for each look, until it is so.
func until(t *testing.T, url, name, what string, so func(queue []locker.Position) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	l, err := locker.Open(ctx, url)
	must(t, err)
	defer l.Close(ctx)
	eventually.Within(t, bound, what, func() bool {
		queue, err := locker.Inspect(ctx, l, name)
		must(t, err)
		return so(queue)
	})
}

// hold starts a program that holds the name until it is told to end.
func hold(t *testing.T, url, name string, flags ...string) *process {
	t.Helper()
	args := append([]string{"run", name}, flags...)
	p := start(t, url, append(args, "--", "sh", "-c", "echo pid $$; exec sleep 1000")...)
	p.says("pid ")
	return p
}

// newRedis returns a Redis server and its URL.
func newRedis(t *testing.T) (*servers.Redis, string) {
	t.Helper()
	r := servers.NewRedis(t, servers.RedisOptions{})
	return r, "redis://" + r.Addr()
}

// command returns the output of a program that must succeed.
func command(t *testing.T, url string, args ...string) string {
	t.Helper()
	p := start(t, url, args...)
	p.want(0)
	return p.out.String()
}

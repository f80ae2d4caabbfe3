//go:build linux

package file

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/locktest"
)

// childEnv says what a process does that a test has started: one of children, by name.
const childEnv = "LOCKER_FILE_CHILD"

// dirEnv is the directory that it uses.
const dirEnv = "LOCKER_FILE_DIR"

// children are what a process can do. It says on its standard output how far it is.
var children = map[string]func(ctx context.Context, dir string) error{
	"hold":        hold,
	"hold and go": holdAndStart,
	"contend":     contend,
	"slow look":   waitWithoutInotify,
	"wait":        waitForever,
	"unprepared":  unprepared,
	"privately":   holdPrivately,
	"full":        fullDisk,
	"idle":        idle,
}

func TestMain(m *testing.M) {
	if do := children[os.Getenv(childEnv)]; do != nil {
		if err := do(context.Background(), os.Getenv(dirEnv)); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// process is one that a test has started.
type process struct {
	t     testing.TB
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string
}

// command returns a process of the test's own program that does what it is told.
func command(t testing.TB, do, dir string) *exec.Cmd {
	t.Helper()
	if children[do] == nil {
		t.Fatalf("nothing is called %q", do)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+do, dirEnv+"="+dir, "GOMAXPROCS=1")
	cmd.Stderr = os.Stderr
	return cmd
}

// run starts cmd, which ends with the test at the latest.
func run(t testing.TB, cmd *exec.Cmd) *process {
	t.Helper()
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	p := &process{t, cmd, in, make(chan string, 100_000)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(p.lines)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.lines <- lines.Text()
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-read
		_ = cmd.Wait()
	})
	return p
}

// spawn starts a process that does what it is told.
func spawn(t testing.TB, do, dir string) *process {
	t.Helper()
	return run(t, command(t, do, dir))
}

// says waits for a line that begins so, and returns the rest.
func (p *process) says(what string) string {
	p.t.Helper()
	timeout := time.After(time.Minute)
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				p.t.Fatalf("the process ended without %q", what)
			}
			if rest, ok := strings.CutPrefix(line, what); ok {
				return strings.TrimSpace(rest)
			}
			p.t.Logf("the process says %q", line)
		case <-timeout:
			p.t.Fatalf("the process did not say %q", what)
		}
	}
}

// ended waits until standard input is closed, as it is when the test has ended.
func ended() { _, _ = io.Copy(io.Discard, os.Stdin) }

// newLocker returns a Locker that is closed with the test.
func newLocker(t testing.TB, dir string, opts ...locker.Option) locker.Locker {
	t.Helper()
	l, err := New(dir, opts...)
	must(t, err)
	t.Cleanup(func() { _ = l.Close(context.Background()) })
	return l
}

var (
	acquire = locktest.Acquire
	release = locktest.Release
)

// begin acquires the name in a goroutine; it returns when the claim stands in the queue as the n-th.
func begin(t testing.TB, l locker.Locker, name string, n int) *locktest.Acquisition[*locker.Lock] {
	t.Helper()
	a := locktest.Begin(t.Context(), l, name)
	queued(t, l, name, n)
	return a
}

// queued waits until there are n claims in the queue of name.
func queued(t testing.TB, l locker.Locker, name string, n int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		found, err := locker.Inspect(t.Context(), l, name)
		must(t, err)
		if len(found) == n {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d in the queue of %q, want %d", len(found), name, n)
		}
	}
}

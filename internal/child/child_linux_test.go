package child

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seed80cd6120/locker/internal/locktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var must = locktest.Must

func bash(t *testing.T, script string) *Process {
	t.Helper()
	p, err := Open(exec.Command("bash", "-c", script))
	must(t, err)
	t.Cleanup(func() {
		p.Kill()
		_, _ = io.Copy(io.Discard, p)
		_ = p.Close()
	})
	return p
}

// state returns what the system says of a process: R, S, T and so on.
func state(t *testing.T, pid int) string {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	must(t, err)
	_, after, _ := bytes.Cut(stat, []byte(") "))
	return string(after[:1])
}

// A child hears and is heard, also what it said before it ended.
func TestOpen(t *testing.T) {
	p := bash(t, "read line; echo heard $line; echo 'and ends' >&2; exit 3")
	_, err := io.WriteString(p, "hello\n")
	must(t, err)
	<-p.Ended()
	if text, err := io.ReadAll(p); err != nil || string(text) != "heard hello\n" {
		t.Errorf("it said %q, %v", text, err)
	}
	if p.Running() || p.Said() != "and ends\n" || p.Err() == nil || p.Err().Error() != "exit status 3" {
		t.Errorf("running: %v, it complained %q and ended with %v", p.Running(), p.Said(), p.Err())
	}
	if err := p.Signal(syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("a signal to a child that has ended: %v", err)
	}
	if _, err := Open(exec.Command("/no/such/program")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a program that there is not: %v", err)
	}
}

// A child ends at the end of its input; one that does not want to end is killed, also if it is stopped.
func TestEnd(t *testing.T) {
	p := bash(t, "read line; echo it; exit 0")
	must(t, p.Close())
	<-p.Ended()
	if text, err := io.ReadAll(p); string(text) != "it\n" || err != nil || p.Err() != nil {
		t.Errorf("it said %q (%v) and ended with %v", text, err, p.Err())
	}

	p = bash(t, "trap '' TERM; echo ready; while :; do read -t 1; done")
	if line, err := bufio.NewReader(p).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatal(line, err)
	}
	must(t, p.Pause(), p.End(syscall.SIGTERM, time.Second))
	if p.Err() == nil || !strings.Contains(p.Err().Error(), "killed") {
		t.Errorf("it ended with %v", p.Err())
	}
}

// A child that Pause has stopped does not run any more when Pause returns, also if it was stopped already. One that ends does not
// keep it waiting.
func TestPause(t *testing.T) {
	p := bash(t, "while :; do :; done")
	for i := range 300 {
		for range 2 {
			must(t, p.Pause())
		}
		if s := state(t, p.PID()); s != "T" {
			t.Fatalf("stop %d: its state is %s", i, s)
		}
		must(t, p.Resume())
	}
	must(t, p.Signal(syscall.SIGKILL))
	if err := p.Pause(); err == nil {
		t.Error("a child that was killed has stopped")
	}
}

// With Family the children of a child are stopped and killed with it.
func TestFamily(t *testing.T) {
	p := bash(t, "sleep 600 & echo $!; wait")
	p.Family = true
	var grandchild int
	_, err := fmt.Fscan(p, &grandchild)
	must(t, err, p.Pause())
	for end := time.Now().Add(time.Minute); state(t, grandchild) != "T"; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("its child is %s", state(t, grandchild))
		}
	}
	p.Kill()
	if p, err := os.FindProcess(grandchild); err == nil && !hasEnded(p) {
		t.Errorf("its child is still there: %s", state(t, grandchild))
	}
}

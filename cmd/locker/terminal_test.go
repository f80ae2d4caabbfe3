//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed80cd6120/locker/internal/child"
)

// console is a terminal with a program in it.
type console struct {
	*process
	master *os.File
}

// openConsole starts a program in a session of its own with a terminal of its own.
func openConsole(t *testing.T, url string, cmd *exec.Cmd) *console {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	must(t, err)
	must(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	must(t, err)
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	must(t, err)
	defer tty.Close()
	done := make(chan struct{})
	c := &console{&process{t: t, cmd: cmd, done: done}, master}
	cmd.Env = append(os.Environ(), "LOCKER_URL="+url, "LOCKER="+binary, "PS1=$ ", "TERM=xterm", "HISTFILE=")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	p, err := child.Start(cmd)
	must(t, err)
	read := make(chan struct{})
	go func() {
		defer close(read)
		buffer := make([]byte, 4096)
		for {
			n, err := master.Read(buffer)
			_, _ = c.out.Write(buffer[:n])
			if err != nil {
				return
			}
		}
	}()
	go func() {
		defer close(done)
		<-p.Ended()
		select {
		case <-read: // all that it has written
		case <-time.After(time.Second): // whoever lives on may have the terminal
		}
	}()
	t.Cleanup(func() {
		p.Kill()
		<-done
		_ = master.Close() // whoever is left in the session gets SIGHUP
	})
	return c
}

// shell returns a shell that runs a script, and then waits for a line: when the first process of a terminal ends, what
// nobody has read yet is lost.
func shell(script string) *exec.Cmd { return exec.Command("sh", "-c", script+"\nread end") }

// types types a text.
func (c *console) types(text string) {
	c.t.Helper()
	if _, err := c.master.WriteString(text); err != nil {
		c.t.Fatal(err)
	}
}

// What is typed is the command's to read, and then the shell's again.
func TestTerminalIsHandedOver(t *testing.T) {
	for what, run := range map[string]string{
		"alone":         `"$LOCKER" run x -c 'echo ready; read a; echo command $a; exit 3'; echo status $?`,
		"in a pipeline": `"$LOCKER" run x -c 'echo ready; read a; echo command $a' | cat`,
	} {
		t.Run(what, func(t *testing.T) {
			c := openConsole(t, place(t), shell(run+`; read b; echo shell $b`))
			c.says("ready")
			c.types("one\n")
			c.says("command one")
			c.types("two\n")
			c.says("shell two")
			if what == "alone" {
				c.says("status 3")
			}
			c.types("\n")
			c.want(0)
		})
	}
}

// A command that was stopped because it asked for the terminal too early goes on when it has it.
func TestTerminalAskedForTooEarly(t *testing.T) {
	c := openConsole(t, place(t), exec.Command("bash", "--norc", "--noprofile", "--noediting", "-i"))
	c.types(`"$LOCKER" run x --ttl 5m -c 'kill -TTIN $$; echo "is ready"; read a; echo "read $a"'` + "\n")
	c.says("is ready\r")
	c.types("one\n")
	c.says("read one")
	c.types("exit\n")
	c.want(0)
}

// Ctrl-C is for the command, once.
func TestInterruptFromTerminal(t *testing.T) {
	c := openConsole(t, place(t), shell(`trap : INT; "$LOCKER" run x -c '
		trap "echo got; n=\$((n+1))" INT; echo ready; while [ -z "$n" ]; do sleep 0.01; done; sleep 0.3; exit $((40+n))'; echo status $?`))
	c.says("ready")
	c.types("\x03")
	c.says("status 41")
	c.types("\n")
	c.want(0)
}

// Ctrl-C ends waiting.
func TestInterruptWhileWaiting(t *testing.T) {
	url := place(t)
	hold(t, url, "x")
	c := openConsole(t, url, shell(`trap : INT; "$LOCKER" run x true; echo status $?`))
	waitsFor(t, url, "x", 1)
	c.types("\x03")
	c.says("status 130")
	c.types("\n")
	c.want(0)
	waitsFor(t, url, "x", 0)
}

// Ctrl-Z gives the terminal back to the shell; fg gives it to the command again.
func TestSuspendFromTerminal(t *testing.T) {
	url := place(t)
	c := openConsole(t, url, exec.Command("bash", "--norc", "--noprofile", "--noediting", "-i"))
	c.types(`"$LOCKER" run x --ttl 5m -c 'echo "is ready"; while read a; do echo "read $a"; done; exit 3'` + "\n")
	c.says("is ready\r")
	c.types("one\n")
	c.says("read one")
	c.types("\x1a")
	c.says("Stopped")
	c.types("echo shell has $((40+2))\n")
	c.says("shell has 42")
	if q := inspect(t, url, "x"); len(q.Holders) != 1 {
		t.Errorf("a command that is stopped does not hold: %+v", q)
	}
	c.types("fg\n")
	c.types("two\n")
	c.says("read two")
	c.types("\x04")
	c.types("echo status $?\n")
	c.says("status 3")
	c.types("exit\n")
	c.want(0)
}

// A command that was suspended for longer than its lock lasts never goes on.
func TestSuspendBeyondDeadline(t *testing.T) {
	t.Parallel()
	url := place(t)
	c := openConsole(t, url, exec.Command("bash", "--norc", "--noprofile", "--noediting", "-i"))
	c.types(`"$LOCKER" run x --ttl ` + long().String() + ` --grace 0.1 -c 'echo "is ready"; while read a; do echo "read $a"; done; exit 3'` + "\n")
	c.says("is ready\r")
	c.types("\x1a")
	c.says("Stopped")
	start(t, url, "run", "x", "--", "true").want(0) // waits until the lock is lost
	c.types("fg\n")
	c.says("the lock was lost")
	c.types("echo status $?\n")
	c.says("status 76")
	c.types("exit\n")
	c.want(0)
	if strings.Contains(c.out.String(), "read echo") {
		t.Errorf("the command went on:\n%s", c.out.String())
	}
}

// break shows whose lock it is and asks.
func TestBreakAsks(t *testing.T) {
	url := place(t)
	holder := hold(t, url, "x", "--owner", "deploy of tuesday")
	token := inspect(t, url, "x").Holders[0].Token
	for _, c := range []struct {
		answer string
		status int
	}{{"n\n", 1}, {"\n", 1}, {"\x04", 1}, {"y\n", 0}} {
		p := openConsole(t, url, exec.Command(binary, "break", "x", "--token", fmt.Sprint(token)))
		p.says("[y/N]")
		if !strings.Contains(p.out.String(), "deploy of tuesday") || !strings.Contains(p.out.String(), fmt.Sprint(token)) {
			t.Errorf("does not show the holder: %s", p.out.String())
		}
		p.types(c.answer)
		p.want(c.status)
		if c.status != 0 && len(inspect(t, url, "x").Holders) != 1 {
			t.Error("taken although the answer was no")
		}
	}
	holder.want(76)
}

// Without a terminal break does nothing unless told to.
func TestBreakDoesNotAskWithoutTerminal(t *testing.T) {
	url := place(t)
	hold(t, url, "x")
	token := inspect(t, url, "x").Holders[0].Token
	start(t, url, "break", "x", "--token", fmt.Sprint(token)).want(64)
	start(t, url, "break", "x", "--token", fmt.Sprint(token+1), "--yes").want(1)
	start(t, url, "break", "y", "--token", fmt.Sprint(token), "--yes").want(1)
	if len(inspect(t, url, "x").Holders) != 1 {
		t.Error("taken")
	}
}

// watch draws the queue again and again in a terminal, and ends by Ctrl-C.
func TestWatchInTerminal(t *testing.T) {
	url := place(t)
	c := openConsole(t, url, exec.Command(binary, "watch", "x", "--interval", "0.05"))
	c.says("free")
	holder := hold(t, url, "x", "--owner", "deploy of tuesday")
	c.says("deploy of tuesday")
	holder.signal(syscall.SIGTERM)
	before := strings.Count(c.out.String(), "free")
	c.says("\x1b[H")
	holder.want(128 + 15)
	for strings.Count(c.out.String(), "free") == before {
		c.says("free")
	}
	c.types("\x03")
	c.want(130)
}

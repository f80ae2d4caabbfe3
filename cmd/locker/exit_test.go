//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestExitStatus(t *testing.T) {
	url := place(t)
	notExecutable := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(notExecutable, []byte("#!/bin/sh\n"), 0o644))
	noInterpreter := filepath.Join(t.TempDir(), "program")
	must(t, os.WriteFile(noInterpreter, []byte("#!/no/such/interpreter\n"), 0o755))
	for _, c := range []struct {
		what   string
		status int
		args   []string
	}{
		{"success", 0, []string{"run", "free", "--", "true"}},
		{"without --", 0, []string{"run", "free", "true"}},
		{"the command's own", 3, []string{"run", "free", "--", "sh", "-c", "exit 3"}},
		{"the command's own, of a line", 4, []string{"run", "free", "-c", "exit 4"}},
		{"the command's flags are its own", 5, []string{"run", "-n", "free", "--", "sh", "-c", `[ "$1" = -n ] && exit 5`, "--", "-n"}},
		{"a command whose number is that of a lost lock", 76, []string{"run", "free", "-c", "exit 76"}},
		{"not found", 127, []string{"run", "free", "--", "no-such-program"}},
		{"a path that is not there", 127, []string{"run", "free", "--", "/no/such/program"}},
		{"no interpreter", 127, []string{"run", "free", "--", noInterpreter}},
		{"not executable", 126, []string{"run", "free", "--", notExecutable}},
		{"a folder", 126, []string{"run", "free", "--", t.TempDir()}},
		{"no command", 64, []string{"run", "free"}},
		{"a command and a line", 64, []string{"run", "free", "-c", "true", "--", "true"}},
		{"no name", 64, []string{"run"}},
		{"an empty name", 64, []string{"run", "", "--", "true"}},
		{"a long name", 64, []string{"run", strings.Repeat("x", 1025), "--", "true"}},
		{"an unknown flag", 64, []string{"run", "free", "--no-such-flag", "--", "true"}},
		{"an unknown command", 64, []string{"frobnicate"}},
		{"an unknown scheme", 64, []string{"run", "free", "--url", "nothing://x", "--", "true"}},
		{"memory, which ends with the process", 64, []string{"run", "free", "--url", "memory://", "--", "true"}},
		{"an unknown parameter", 64, []string{"run", "free", "--url", "redis://x?frob=1", "--", "true"}},
		{"a TTL that is too short", 64, []string{"run", "free", "--ttl", "1ms", "--", "true"}},
		{"a grace longer than half of the TTL", 64, []string{"run", "free", "--ttl", "4s", "--grace", "3s", "--", "true"}},
		{"a time that is none", 64, []string{"run", "free", "-w", "soon", "--", "true"}},
		{"permits that are none", 64, []string{"run", "free", "--permits", "3", "--", "true"}},
		{"no permits at all", 64, []string{"run", "free", "--permits", "1/0", "--", "true"}},
		{"more permits than there are", 64, []string{"run", "free", "--permits", "3/2", "--", "true"}},
		{"two kinds", 64, []string{"run", "free", "-s", "--permits", "1/2", "--", "true"}},
		{"help", 0, []string{"run", "--help"}},
		{"version", 0, []string{"--version"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			p := start(t, url, c.args...)
			p.want(c.status)
			if errs := p.errs.String(); strings.Count(errs, "\n") > 1 {
				t.Errorf("more than a line: %s", errs)
			}
			if c.status == 64 && !strings.HasPrefix(p.errs.String(), "locker: ") {
				t.Errorf("no word of what is wrong: %q", p.errs.String())
			}
		})
	}
	isFree(t, url, "free")
}

// The command that was ended by a signal.
func TestExitStatusOfSignal(t *testing.T) {
	url := place(t)
	for _, signal := range []syscall.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL, syscall.SIGUSR1, syscall.SIGPIPE, syscall.SIGALRM,
	} {
		t.Run(signal.String(), func(t *testing.T) {
			start(t, url, "run", "x", "-c", "kill -"+signalName(signal)+" $$").want(128 + int(signal))
		})
	}
}

func TestExitStatusWhenTaken(t *testing.T) {
	t.Parallel()
	url := place(t)
	hold(t, url, "taken", "--ttl", "5m")
	t.Cleanup(func() {
		if q := inspect(t, url, "taken"); len(q.Holders) != 1 || len(q.Waiters) != 0 {
			t.Errorf("left behind: %+v", q)
		}
	})
	for _, c := range []struct {
		what   string
		status int
		silent bool
		args   []string
	}{
		{"not waiting", 75, false, []string{"-n"}},
		{"waiting for no time", 75, false, []string{"-w", "0"}},
		{"waiting for some time", 75, false, []string{"-w", fmt.Sprintf("%.1f", long().Seconds()+0.5)}},
		{"a number of the user's", 9, false, []string{"-n", "-E", "9"}},
		{"a number of the user's, waiting", 0, false, []string{"-w", long().String(), "-E", "0"}},
		{"silent", 75, true, []string{"-n", "-q"}},
		{"shared beside exclusive", 75, false, []string{"-n", "-s"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			p := start(t, url, append(append([]string{"run", "taken"}, c.args...), "--", "sh", "-c", "echo ran")...)
			p.want(c.status)
			if p.out.String() != "" {
				t.Errorf("the command ran: %q", p.out.String())
			}
			if (p.errs.String() == "") != c.silent || strings.Count(p.errs.String(), "\n") > 1 {
				t.Errorf("said %q", p.errs.String())
			}
		})
	}
}

func TestExitStatusWhenUnreachable(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"redis://127.0.0.1:1", "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3", "zookeeper://127.0.0.1:1", "etcd://127.0.0.1:1"} {
		t.Run(url, func(t *testing.T) {
			t.Parallel()
			for _, args := range []string{"run x -- true", "run -n x -- true", "list", "watch x"} {
				t.Run(args, func(t *testing.T) {
					t.Parallel()
					p := start(t, url, strings.Fields(args)...)
					p.want(69)
					if errs := p.errs.String(); strings.Count(errs, "\n") != 1 || !strings.Contains(errs, "locker doctor") {
						t.Errorf("it said %q, want a line that says what to do", errs)
					}
				})
			}
		})
	}
}

func TestErrorsAsJSON(t *testing.T) {
	t.Parallel()
	url := place(t)
	hold(t, url, "taken")
	for _, args := range [][]string{
		{"run", "--json", "-n", "taken", "--", "true"}, {"--json", "frobnicate"}, {"run", "taken", "--json"},
		{"break", "taken", "--json", "--token", "1", "--yes"}, {"list", "--json", "--url", "redis://127.0.0.1:1"},
	} {
		p := start(t, url, args...)
		if p.status() == 0 {
			t.Errorf("%v succeeded", args)
		}
		var line struct{ Level, Message string }
		if err := json.Unmarshal([]byte(p.errs.String()), &line); err != nil || line.Level != "error" || line.Message == "" {
			t.Errorf("%v: %v in %q", args, err, p.errs.String())
		}
	}
}

// What the command is told of its lock, and what it does not inherit.
func TestEnvironment(t *testing.T) {
	url := place(t)
	t.Setenv("LOCKER_TOKEN", "stale")
	line := `echo $LOCKER_NAME $LOCKER_TOKEN $LOCKER_OWNER; locker_inspect=$("$LOCKER" inspect --json $LOCKER_NAME); echo $locker_inspect`
	for _, c := range []struct {
		args  []string
		url   string
		owner string
	}{
		{nil, url, ""},
		{[]string{"--owner", "deploy"}, url, "deploy"},
	} {
		p := start(t, c.url, append(append([]string{"run", "x"}, c.args...), "-c", line)...)
		p.want(0)
		first, rest, _ := strings.Cut(p.out.String(), "\n")
		fields := strings.Fields(first)
		var q queue
		if err := json.Unmarshal([]byte(rest), &q); err != nil || len(q.Holders) != 1 || len(fields) != 3 {
			t.Fatalf("%v: %q", err, p.out.String())
		}
		h := q.Holders[0]
		if fields[0] != "x" || fields[1] != jsonNumber(h.Token) || fields[2] != h.Owner || c.owner != "" && h.Owner != c.owner {
			t.Errorf("the command was told %v, the holder is %+v", fields, h)
		}
	}
}

func jsonNumber(n int64) string {
	text, _ := json.Marshal(n)
	return string(text)
}

// The command has the open files of this process's parent and none of its own.
func TestOpenFiles(t *testing.T) {
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Skip("no /proc")
	}
	url := place(t)
	list := "for f in /proc/$$/fd/*; do readlink $f; done; true"
	direct, err := exec.Command("sh", "-c", list).Output()
	must(t, err)
	p := start(t, url, "run", "x", "-c", list)
	p.want(0)
	if under, alone := strings.Count(p.out.String(), "\n"), strings.Count(string(direct), "\n"); under != alone {
		t.Errorf("%d open files, want %d:\n%s", under, alone, p.out.String())
	}
}

func TestAtLeast(t *testing.T) {
	t.Parallel()
	url := place(t)
	begin := time.Now()
	start(t, url, "run", "x", "--at-least", "3s", "--", "true").want(0)
	status := start(t, url, "run", "-n", "x", "--", "true").status()
	if took := time.Since(begin); status != 75 && took < 3*time.Second {
		t.Errorf("free again after %v: status %d", took, status)
	}
	start(t, url, "run", "x", "--", "true").want(0)
	if took := time.Since(begin); took < 3*time.Second {
		t.Errorf("taken again after %v, want 3s", took)
	}
}

func TestKinds(t *testing.T) {
	url := place(t)
	hold(t, url, "shared", "-s")
	start(t, url, "run", "-n", "-s", "shared", "--", "true").want(0)
	start(t, url, "run", "-n", "shared", "--", "true").want(75)
	hold(t, url, "permits", "--permits", "2/3")
	start(t, url, "run", "-n", "--permits", "1/3", "permits", "--", "true").want(0)
	start(t, url, "run", "-n", "--permits", "2/3", "permits", "--", "true").want(75)
}

//go:build linux

package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/seed80cd6120/locker/internal/eventually"
)

var update = flag.Bool("update", false, "write the session in README.md anew")

const (
	sessionBegin = "```console\n"
	sessionEnd   = "```\n"
)

// The session in README.md is what happens. With -update it is written anew, of the commands that stand in it.
func TestSession(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(readme), sessionBegin)
	written, after, ok2 := strings.Cut(rest, sessionEnd)
	if !ok1 || !ok2 {
		t.Fatal("README.md has no session")
	}
	var happened strings.Builder
	s := newSession(t)
	commands := 0
	for line := range strings.Lines(written) {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			commands++
			happened.WriteString(line + s.run(strings.TrimSpace(command)))
		}
	}
	if commands < 5 {
		t.Errorf("%d commands", commands)
	}
	if *update {
		text := before + sessionBegin + happened.String() + sessionEnd + after
		if err := os.WriteFile("README.md", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if general(happened.String()) != general(written) {
		t.Errorf("README.md has another session (-update writes it anew):\n%s\nhappened:\n%s", written, happened.String())
	}
}

// general returns a session without what is different each time: numbers and the width of columns.
func general(session string) string {
	session = regexp.MustCompile(`\b[0-9a-f]{32}\b`).ReplaceAllString(session, "ID")
	session = regexp.MustCompile(`[0-9.]+(m[0-9.]+s|ms|s|m)\b`).ReplaceAllString(session, "TIME")
	session = regexp.MustCompile(`\d{4,}`).ReplaceAllString(session, "NUMBER")
	return regexp.MustCompile(` +`).ReplaceAllString(session, " ")
}

// session is a shell that runs one command after the other.
type session struct {
	*process
	t    *testing.T
	in   *os.File
	home string
	seen int
	said int
}

func newSession(t *testing.T) *session {
	t.Helper()
	home := t.TempDir()
	read, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close() })
	cmd := exec.Command("bash", "--norc", "--noprofile")
	cmd.Stdin = read
	cmd.Dir = home
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("PATH", filepath.Dir(binary)+":"+os.Getenv("PATH"))
	s := &session{t: t, in: in, home: home}
	s.process = startCommand(t, "", cmd)
	read.Close()
	s.run("exec 2>&1")
	return s
}

// run runs a command and returns what it has written. After one in the background it waits until that holds its name.
func (s *session) run(command string) string {
	s.t.Helper()
	s.said++
	end := fmt.Sprintf("end-of-command-%d\n", s.said)
	if _, err := fmt.Fprintf(s.in, "%s\necho %s", command, end); err != nil {
		s.t.Fatal(err)
	}
	text := s.says(end)
	out := strings.TrimSuffix(text[s.seen:], end)
	s.seen = len(text)
	if strings.HasSuffix(command, "&") {
		eventually.Within(s.t, bound, "the command in the background holds its name", func() bool {
			list := exec.Command(binary, "list")
			list.Env = append(os.Environ(), "HOME="+s.home)
			out, err := list.Output()
			return err == nil && len(out) > 0
		})
	}
	return strings.ReplaceAll(out, s.home, "/home/you")
}

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

var update = flag.Bool("update", false, "write the sessions in the documentation anew")

const (
	sessionBegin = "```console\n"
	sessionEnd   = "```\n"
)

// The sessions in the documentation are what happens. With -update they are written anew, of the commands that stand in
// them.
func TestSession(t *testing.T) {
	howtos, err := filepath.Glob("../../docs/howto/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append([]string{"README.md", "../../README.md"}, howtos...) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		before, rest, begun := strings.Cut(string(text), sessionBegin)
		written, after, ended := strings.Cut(rest, sessionEnd)
		if !begun && filepath.Dir(page) == "../../docs/howto" {
			continue // it has none
		}
		if !begun || !ended || strings.Contains(after, sessionBegin) {
			t.Fatalf("%s has not one session", page)
		}
		t.Run(filepath.ToSlash(page), func(t *testing.T) {
			happened := replay(t, written)
			switch {
			case *update:
				if err := os.WriteFile(page, []byte(before+sessionBegin+happened+sessionEnd+after), 0o644); err != nil {
					t.Fatal(err)
				}
			case general(happened) != general(written):
				t.Errorf("%s has another session (-update writes it anew):\n%s\nhappened:\n%s", page, written, happened)
			}
		})
	}
}

// replay runs the commands of a session and returns them with what they have written.
func replay(t *testing.T, written string) string {
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
	return happened.String()
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

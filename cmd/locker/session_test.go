//go:build linux

package main

import (
	"flag"
	"fmt"
	"io/fs"
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
	t.Parallel()
	sessions := 0
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		must(t, err)
		before, rest, begun := strings.Cut(string(text), sessionBegin)
		if !begun {
			continue
		}
		sessions++
		written, after, ended := strings.Cut(rest, sessionEnd)
		if !ended || strings.Contains(after, sessionBegin) {
			t.Fatalf("%s has more than one session", page)
		}
		t.Run(filepath.ToSlash(page), func(t *testing.T) {
			t.Parallel()
			happened := replay(t, written)
			switch {
			case *update:
				must(t, os.WriteFile(page, []byte(before+sessionBegin+happened+sessionEnd+after), 0o644))
			case general(happened) != general(written):
				t.Errorf("%s has another session (-update writes it anew):\n%s\nhappened:\n%s", page, written, happened)
			}
		})
	}
	if sessions < 3 {
		t.Errorf("%d sessions", sessions)
	}
}

// pages returns every Markdown file of the project.
func pages(t *testing.T) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Ext(path) == ".md" {
			all = append(all, path)
		}
		return err
	})
	must(t, err)
	return all
}

// Lines in the documentation that call locker do what they say. The server at db1 is a folder here.
func TestShell(t *testing.T) {
	t.Setenv("PATH", filepath.Dir(binary)+":"+os.Getenv("PATH"))
	lines := 0
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		must(t, err)
		for line := range strings.Lines(string(text)) {
			line, indented := strings.CutPrefix(line, "    ")
			line = strings.Replace(line, "go run ./cmd/locker ", "locker ", 1)
			if !indented || !strings.HasPrefix(line, "locker ") {
				continue
			}
			lines++
			dir := t.TempDir()
			t.Setenv("HOME", dir)
			for _, script := range regexp.MustCompile(`\./\w+\.sh`).FindAllString(line, -1) {
				must(t, os.WriteFile(filepath.Join(dir, script), []byte("#!/bin/sh\necho it runs\n"), 0o700))
			}
			cmd := exec.Command("bash", "-c", strings.Replace(line, "redis://db1", "file://"+dir+"/db1", 1))
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil || string(out) != "it runs\n" {
				t.Errorf("%s: %s%v, %s", page, line, err, out)
			}
		}
	}
	if lines < 2 {
		t.Errorf("%d lines", lines)
	}
}

// replay runs the commands of a session and returns them with what they have written.
func replay(t *testing.T, written string) string {
	var happened strings.Builder
	s := newSession(t)
	commands, waits := 0, true
	for line := range strings.Lines(written) {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			commands++
			if !waits && !strings.HasPrefix(command, "sleep ") {
				t.Errorf("who pastes the session is too early with: %s", command)
			}
			waits = !strings.HasSuffix(command, "&\n")
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
	env  []string
	home string
	seen int
	said int
}

func newSession(t *testing.T) *session {
	t.Helper()
	home := t.TempDir()
	read, in, err := os.Pipe()
	must(t, err)
	t.Cleanup(func() { in.Close() })
	cmd := exec.Command("bash", "--norc", "--noprofile")
	cmd.Stdin = read
	cmd.Dir = home
	s := &session{t: t, in: in, env: []string{"HOME=" + home, "XDG_CACHE_HOME=", "PATH=" + filepath.Dir(binary) + ":" + os.Getenv("PATH")}, home: home}
	cmd.Env = s.env
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
			list.Env = append(os.Environ(), s.env...)
			out, err := list.Output()
			return err == nil && len(out) > 0
		})
	}
	return strings.ReplaceAll(out, s.home, "/home/you")
}

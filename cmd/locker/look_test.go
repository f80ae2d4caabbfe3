//go:build unix

package main

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"
)

func TestList(t *testing.T) {
	url := place(t)
	if out := command(t, url, "list"); out != "" {
		t.Errorf("listed in an empty place: %q", out)
	}
	if out := command(t, url, "list", "--json"); strings.TrimSpace(out) != "[]" {
		t.Errorf("listed in an empty place: %q", out)
	}
	hold(t, url, "backup/a", "-s", "--owner", "first")
	hold(t, url, "backup/a", "-s", "--owner", "second")
	hold(t, url, "backup/b")
	hold(t, url, "other\nline")
	start(t, url, "run", "backup/b", "--", "true")
	waitsFor(t, url, "backup/b", 1)

	var queues []queue
	must(t, json.Unmarshal([]byte(command(t, url, "list", "backup/", "--json")), &queues))
	if len(queues) != 2 || queues[0].Name != "backup/a" || len(queues[0].Holders) != 2 || queues[1].Name != "backup/b" || len(queues[1].Waiters) != 1 {
		t.Errorf("listed %+v", queues)
	}
	lines := strings.Split(strings.TrimSpace(command(t, url, "list")), "\n")
	if len(lines) != 5 || !strings.HasPrefix(lines[0], "NAME") || !strings.HasSuffix(lines[3], " 1") || !strings.HasPrefix(lines[4], `"other\nline"`) {
		t.Errorf("listed\n%s", strings.Join(lines, "\n"))
	}
}

func TestInspect(t *testing.T) {
	url := place(t)
	if out := command(t, url, "inspect", "x"); out != "x is free\n" {
		t.Errorf("%q", out)
	}
	hold(t, url, "x", "--permits", "2/3", "--owner", "the owner")
	start(t, url, "run", "x", "--owner", "the waiter", "--", "true")
	waitsFor(t, url, "x", 1)
	out := command(t, url, "inspect", "x")
	for _, text := range []string{"holds", "2 of 3 permits", "the owner", "waits 1", "exclusive", "the waiter", " ago"} {
		if !strings.Contains(out, text) {
			t.Errorf("no %q in\n%s", text, out)
		}
	}
}

// break takes a waiter's place too, by its ID, and nobody else's.
func TestBreakOfWaiter(t *testing.T) {
	url := place(t)
	hold(t, url, "x")
	start(t, url, "run", "x", "--owner", "first", "--", "true")
	waitsFor(t, url, "x", 1)
	start(t, url, "run", "x", "--owner", "second", "--", "true")
	waitsFor(t, url, "x", 2)
	before := inspect(t, url, "x")
	command(t, url, "break", "x", "--id", before.Waiters[0].ID, "--yes")
	waitsFor(t, url, "x", 2) // the first has queued anew, at the end
	after := inspect(t, url, "x")
	if after.Holders[0].ID != before.Holders[0].ID || after.Waiters[0].Owner != "second" || after.Waiters[1].Owner != "first" {
		t.Errorf("before %+v, after %+v", before, after)
	}
}

// watch writes a line for each change where there is no terminal.
func TestWatch(t *testing.T) {
	url := place(t)
	p := start(t, url, "watch", "x", "--json", "--interval", "0.02")
	lines := start(t, url, "watch", "x", "--interval", "0.02")
	holder := hold(t, url, "x", "--owner", "first")
	p.says(`"first"`)
	lines.says("first")
	waiter := start(t, url, "run", "x", "--owner", "second", "--", "sleep", "1000")
	p.says(`"event":"waits"`)
	holder.signal(syscall.SIGTERM)
	p.says(`"event":"gone"`)
	lines.says("gone")
	waitsFor(t, url, "x", 0)
	lines.says("holds  exclusive  second")
	waiter.signal(syscall.SIGTERM)
	p.signal(syscall.SIGTERM)
	p.want(128 + 15)
	lines.signal(syscall.SIGINT)
	lines.want(128 + 2)
	for line := range strings.Lines(p.out.String()) {
		var c struct {
			Event    string
			Position position
		}
		if err := json.Unmarshal([]byte(line), &c); err != nil || c.Event == "" || c.Position.Owner == "" {
			t.Errorf("%v: %q", err, line)
		}
	}
}

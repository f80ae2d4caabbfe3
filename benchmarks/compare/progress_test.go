package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestProgressInAFile(t *testing.T) {
	var b bytes.Buffer
	p := &progress{w: &b, start: time.Now()}
	for _, what := range []string{"starting redis-1", "Alone: redis", "Alone: redislock", "Contended, 16 clients: redis", "Contended, 16 clients: redislock"} {
		p.tell(what, .5)
	}
	p.end()
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 3 || !strings.Contains(lines[1], "50%") || !strings.HasSuffix(lines[2], "Contended, 16 clients: redis") {
		t.Errorf("%q", lines)
	}
}

func TestProgressOnATerminal(t *testing.T) {
	var b bytes.Buffer
	p := &progress{w: &b, live: true, start: time.Now()}
	p.tell("something that is long", 0)
	p.tell("short", 1)
	p.end()
	written := strings.Split(b.String(), "\r")
	if len(written) != 5 || len(written[2]) != len(written[1]) || strings.TrimSpace(written[3]) != "" || strings.Contains(b.String(), "\n") {
		t.Errorf("%q", written)
	}
}

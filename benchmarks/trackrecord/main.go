// Command trackrecord holds lock libraries, this project's own among them, to the checks
// of package checks, three times each, and writes docs/track-record.md.
//
//	go -C benchmarks run ./trackrecord
//
// It takes about ten minutes. With -from it reads what an earlier run wrote with -events.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/seed80cd6120/locker/benchmarks/trackrecord/checks"
)

func main() {
	times := flag.Int("times", 3, "how often every check is run")
	out := flag.String("o", "../docs/track-record.md", "where the table goes")
	events := flag.String("events", "", "also write what go test said to this `file`")
	from := flag.String("from", "", "read what go test said from this `file` instead of running it")
	note := flag.String("note", "", "a sentence on how this was measured, for the page")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *times, *out, *events, *from, *note); err != nil {
		fmt.Fprintln(os.Stderr, "trackrecord:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, times int, out, events, from, note string) error {
	var said []byte
	var err error
	if from != "" {
		said, err = os.ReadFile(from)
	} else {
		said, err = test(ctx, times)
	}
	if err != nil {
		return err
	}
	if events != "" {
		if err := os.WriteFile(events, said, 0o644); err != nil {
			return err
		}
	}
	r, err := read(said)
	if err != nil {
		return err
	}
	if len(r) == 0 {
		return fmt.Errorf("no check was run:\n%.2000s", said)
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	var page bytes.Buffer
	r.write(&page, times, note)
	return os.WriteFile(out, page.Bytes(), 0o644)
}

// test runs the checks. That some fail is what it is about.
func test(ctx context.Context, times int) ([]byte, error) {
	var cases []string
	for _, c := range checks.Suite {
		cases = append(cases, strings.Split(c.ID, "/")[1])
	}
	suite := "TestConformance/././^(" + strings.Join(cases, "|") + ")$"
	cmd := exec.CommandContext(ctx, "go", "test", "-json", "-timeout", "60m", "-parallel", "5",
		fmt.Sprintf("-count=%d", times), "-run", "TestTrack|"+suite, "./trackrecord/checks")
	cmd.Env = append(os.Environ(), "LOCKER_TRACK=1")
	cmd.Stderr = os.Stderr
	var said bytes.Buffer
	cmd.Stdout = io.MultiWriter(&said, progress{})
	if err := cmd.Run(); err != nil && said.Len() == 0 {
		return nil, err
	}
	return said.Bytes(), ctx.Err()
}

// progress shows which checks have ended.
type progress struct{}

func (progress) Write(b []byte) (int, error) {
	for line := range bytes.Lines(b) {
		var e event
		if json.Unmarshal(line, &e) == nil && strings.Count(e.Test, "/") >= 2 && (e.Action == "pass" || e.Action == "fail") {
			fmt.Printf("%s  %s\n", e.Action, e.Test)
		}
	}
	return len(b), nil
}

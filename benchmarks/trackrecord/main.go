// Command trackrecord holds lock libraries, this project's own among them, to the checks
// of package checks, to cases of the conformance suite and to rows of package faults.
// What one of them does not keep it is asked three times. It writes docs/track-record.md.
//
//	go -C benchmarks run ./trackrecord
//
// It takes about twenty-five minutes. With -from it reads what earlier runs wrote with
// -events, so that what is new can be asked by itself, with -only and -checks.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/seed80cd6120/locker/benchmarks/trackrecord/checks"
)

func main() {
	times := flag.Int("times", 3, "how often a check is run that a library does not keep")
	events := flag.String("events", "", "also write what go test said to this `file`")
	from := flag.String("from", "", "read what go test said from these `files`, with commas between, instead of running it")
	only := flag.String("only", "", "ask only these `libraries`, by their names in the table with commas between")
	like := flag.String("checks", "", "ask only what matches this `pattern`, by their names in the last part of -run")
	note := flag.String("note", "", "a sentence on how this was measured, for the page")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	asking := asking{times: *times, only: *only}
	var err error
	if asking.like, err = regexp.Compile(*like); err == nil {
		err = run(ctx, asking, *events, *from, *note)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "trackrecord:", err)
		os.Exit(1)
	}
}

// asking is what is asked, and how often.
type asking struct {
	times int
	only  string
	like  *regexp.Regexp
}

const (
	page   = "../docs/track-record.md" // where the table goes
	atOnce = 4                         // libraries that are asked at the same time
)

func run(ctx context.Context, a asking, events, from, note string) (err error) {
	var said []byte
	if from == "" {
		said, err = a.test(ctx)
	} else {
		for file := range strings.SplitSeq(from, ",") {
			text, failed := os.ReadFile(file)
			said, err = append(said, text...), errors.Join(err, failed)
		}
	}
	if err == nil && events != "" {
		err = os.WriteFile(events, said, 0o644)
	}
	if err != nil {
		return err
	}
	r := read(said)
	if len(r) == 0 {
		return fmt.Errorf("no check was run:\n%.2000s", said)
	}
	var text bytes.Buffer
	r.write(&text, a.times, note)
	return errors.Join(os.WriteFile(page, text.Bytes(), 0o644), a.complete(r))
}

// complete returns an error that names the checks without an outcome; nil if there are none.
func (a asking) complete(r results) error {
	var names []string
	for _, l := range a.libraries() {
		for _, c := range lacking(a.of(l), r[l.Name]) {
			names = append(names, l.Name+" "+c.ID)
		}
	}
	if len(names) > 0 {
		return fmt.Errorf("without an outcome: %s", strings.Join(names, ", "))
	}
	return nil
}

// libraries returns those that are asked.
func (a asking) libraries() []checks.Library {
	return slices.DeleteFunc(checks.Libraries(), func(l checks.Library) bool {
		return a.only != "" && !slices.Contains(strings.Split(a.only, ","), l.Name)
	})
}

// test runs the checks, in a process for each library: what one of them does to its process
// (some panic) shall not end the others. That some fail is what it is about.
func (a asking) test(ctx context.Context) ([]byte, error) {
	bin, err := build(ctx)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(filepath.Dir(bin))
	var (
		mu    sync.Mutex
		said  bytes.Buffer
		all   sync.WaitGroup
		slots = make(chan struct{}, atOnce)
	)
	for _, l := range a.libraries() {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if ctx.Err() != nil {
				return
			}
			out := a.testLibrary(l, func(run string, times int) []byte { return goTest(ctx, bin, run, times) })
			mu.Lock()
			defer mu.Unlock()
			said.Write(out)
		})
	}
	all.Wait()
	return said.Bytes(), ctx.Err()
}

// build compiles the checks once.
func build(ctx context.Context) (string, error) {
	dir, err := os.MkdirTemp("", "trackrecord")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "checks.test")
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-o", bin, "./trackrecord/checks")
	cmd.Stderr = os.Stderr
	return bin, cmd.Run()
}

// testLibrary asks a library everything once, and what it did not keep again until it was
// asked so many times; it returns what go test said, as events. What has no outcome when a process ends is asked in another, until
// one ends without any.
func (a asking) testLibrary(l checks.Library, ask func(run string, times int) []byte) (said []byte) {
	all := a.of(l)
	for left, before := all, len(all)+1; len(left) > 0 && len(left) < before; {
		before = len(left)
		said = append(said, ask(patternOf(l, left), 1)...)
		left = lacking(left, read(said)[l.Name])
	}
	outcomes := read(said)[l.Name]
	again := slices.DeleteFunc(slices.Clone(all), func(c checks.Check) bool { return outcomes[c.ID] == nil || outcomes[c.ID].failed == 0 })
	if len(again) == 0 || a.times < 2 {
		return said
	}
	return append(said, ask(patternOf(l, again), a.times-1)...)
}

// lacking returns those of all that have no outcome.
func lacking(all []checks.Check, outcomes map[string]*outcome) []checks.Check {
	return slices.DeleteFunc(slices.Clone(all), func(c checks.Check) bool { return outcomes[c.ID].runs() > 0 })
}

// of returns all that is asked of a library.
func (a asking) of(l checks.Library) (all []checks.Check) {
	for _, c := range everything {
		elsewhere := l.Ours && testOf(c) != "TestTrack" // their own packages do this
		if l.Offers(c) && !elsewhere && a.like.MatchString(c.ID) {
			all = append(all, c)
		}
	}
	return all
}

// patternOf returns the -run of some checks of a library.
func patternOf(l checks.Library, some []checks.Check) string {
	var tests []string
	for _, c := range some {
		tests = append(tests, exactly(testOf(c)+"/"+l.Name+"/"+c.ID))
	}
	return strings.Join(tests, "|")
}

// exactly is the -run of one test.
func exactly(test string) string {
	var elements []string
	for _, e := range strings.Split(test, "/") {
		elements = append(elements, "^"+regexp.QuoteMeta(e)+"$")
	}
	return strings.Join(elements, "/")
}

func goTest(ctx context.Context, bin, run string, times int) []byte {
	cmd := exec.CommandContext(ctx, "go", "tool", "test2json", bin, "-test.v=test2json", "-test.timeout=30m", "-test.parallel=3",
		fmt.Sprintf("-test.count=%d", times), "-test.run", run)
	cmd.Dir = filepath.Join("trackrecord", "checks")
	cmd.Env = append(os.Environ(), "LOCKER_TRACK=1")
	cmd.Stderr = os.Stderr
	var said bytes.Buffer
	cmd.Stdout = io.MultiWriter(&said, progress{})
	_ = cmd.Run()
	return said.Bytes()
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

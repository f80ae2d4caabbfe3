package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/benchmarks/catalog"
	"github.com/seed80cd6120/locker/benchmarks/child"
	"github.com/seed80cd6120/locker/benchmarks/experiment"
	"github.com/seed80cd6120/locker/internal/servers"
)

// asCommand has the test binary be the command.
const asCommand = "LOCKER_COMPARE_TEST_COMMAND"

func TestMain(m *testing.M) {
	experiment.RegisterRoles(catalog.Find)
	child.Main()
	if os.Getenv(asCommand) != "" {
		os.Unsetenv(asCommand)
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// compare runs the command with args and returns what it printed.
func compare(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// The smallest comparison on a real server, with processes that are killed and paused.
func TestSmoke(t *testing.T) {
	servers.Need(t)
	t.Parallel()
	dir := t.TempDir()
	out, errs, err := compare(t, "-smoke", "-repeat", "1", "-backends", "redis", "-rivals", "redislock", "-out", dir)
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, errs)
	}
	again, _, err := compare(t, "-from", filepath.Join(dir, "report.json"), "-out", "none")
	if err != nil || !strings.HasPrefix(out, again) {
		t.Errorf("made again from its file, %v, the report is\n%s\nand was\n%s", err, again, out)
	}
	fillsPage(t, dir)
	for _, want := range []string{"Alone", "16 clients", "killed, TTL 2s", "redislock", "Which one?", "at least 0.85 of redislock's rate"} {
		if !strings.Contains(out, want) {
			t.Errorf("it did not print %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "failed:") {
		t.Errorf("something failed:\n%s", out)
	}
	for _, name := range []string{"report.md", "report.html", "report.json", "plots/rates.svg"} {
		if st, err := os.Stat(filepath.Join(dir, name)); err != nil || st.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	check(t, filepath.Join(dir, "report.json"))
}

// Locks in databases are compared with each other.
func TestDatabases(t *testing.T) {
	servers.Need(t)
	t.Parallel()
	out, errs, err := compare(t, "-smoke", "-repeat", "1", "-backends", "postgres,mysql", "-experiments", "alone,death", "-out", "none")
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, errs)
	}
	for _, want := range []string{"PostgreSQL 1", "postgres-durable", "pglock", "floor-postgres-1", "MariaDB 10", "killed, TTL 2s"} {
		if !strings.Contains(out, want) {
			t.Errorf("it did not print %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "failed:") {
		t.Errorf("something failed:\n%s", out)
	}
}

// fillsPage has the figures of a run put between the marks of a page, twice.
func fillsPage(t *testing.T, dir string) {
	t.Helper()
	file := filepath.Join(dir, "comparison.md")
	if err := os.WriteFile(file, []byte("before\n"+markBegin+"\nold\n"+markEnd+"\nafter\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var was string
	for range 2 {
		if out, errs, err := compare(t, "-from", filepath.Join(dir, "report.json"), "-out", "none", "-page", file); err != nil {
			t.Fatalf("%v\n%s\n%s", err, out, errs)
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		is := string(b)
		if !strings.HasPrefix(is, "before\n"+markBegin) || !strings.HasSuffix(is, markEnd+"\nafter\n") || strings.Contains(is, "old") ||
			!strings.Contains(is, "**redis**") || !strings.Contains(is, "(rates.svg)") || was != "" && is != was {
			t.Errorf("the page is\n%s", is)
		}
		was = is
	}
	if st, err := os.Stat(filepath.Join(dir, "rates.svg")); err != nil || st.Size() == 0 {
		t.Errorf("the plot: %v", err)
	}
	if err := os.WriteFile(file, []byte("no marks"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, errs, err := compare(t, "-from", filepath.Join(dir, "report.json"), "-out", "none", "-page", file); err == nil || !strings.Contains(errs, "no marks") {
		t.Errorf("without marks: %v, %s", err, errs)
	}
}

// What is run only if it is named: the two recipes of readers and writers are among those that ZooKeeper runs.
func TestSmokeOfExperimentsOnDemand(t *testing.T) {
	servers.Need(t)
	t.Parallel()
	dir := t.TempDir()
	out, errs, err := compare(t, "-smoke", "-repeat", "1", "-backends", "zookeeper-1", "-rivals", "none",
		"-experiments", "delay,read-write,processes,many-held", "-out", dir)
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, errs)
	}
	if strings.Contains(out, "failed:") {
		t.Errorf("something failed:\n%s", out)
	}
	got := figures(t, filepath.Join(dir, "report.json"))
	for _, figure := range []string{
		"delay|alone, 5 ms|zookeeper-1|two inside", "delay|16 clients, 5 ms|zookeeper-1|two inside",
		"read-write|50 % writes|zookeeper-1|wrong together",
		"read-write|50 % writes|naive.rw-parent|wrong together", "read-write|50 % writes|naive.rw-last-writer|wrong together",
		"processes|2 × 4, hand-over|zookeeper-1|two inside", "many-held|100 names held at once|zookeeper-1|lost",
	} {
		if v, ok := got[figure]; !ok || v != 0 {
			t.Errorf("%s is %v (%v), want 0", figure, v, ok)
		}
	}
	if trips := got["delay|alone, 5 ms|zookeeper-1|round trips"]; trips < 2 {
		t.Errorf("a lock and its release took %v round trips of 5 ms, want 2 at least", trips)
	}
}

// What is counted in another way on each kind of server.
func TestSmokeOfOtherServers(t *testing.T) {
	servers.Need(t)
	t.Parallel()
	dir := t.TempDir()
	out, errs, err := compare(t, "-smoke", "-repeat", "1", "-backends", "zookeeper-1,etcd-1", "-rivals", "none",
		"-experiments", "alone,waiting,herd,fairness,scale,readers", "-out", dir)
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, errs)
	}
	if strings.Contains(out, "failed:") {
		t.Errorf("something failed:\n%s", out)
	}
	got := figures(t, filepath.Join(dir, "report.json"))
	for _, who := range []string{"zookeeper-1", "etcd-1"} {
		// From and to: on a busy machine those who come 100 ms apart may change places, and readers may ask and hold again and again
		// before a writer's request, which was made first, comes to the server.
		for figure, want := range map[string][2]float64{
			"alone||%s|requests":                             {2, 2.3}, // a third request for each pair makes it 3
			"waiting|20 clients|%s|stuck":                    {0, 0},
			"waiting|20 clients|%s|drain":                    {1, 20},
			"herd|20 waiters|%s|requests":                    {1, 10},
			"fairness|24 clients|%s|out of order":            {0, 30}, // by chance it is 50
			"readers|a writer among 64 readers|%s|overtaken": {0, 640},
			"scale|100 names held at once|%s|lost":           {0, 0},
			"scale|100 names held at once|%s|goroutines":     {0, .3},
		} {
			figure = strings.Replace(figure, "%s", who, 1)
			if v, ok := got[figure]; !ok || v < want[0] || v > want[1] {
				t.Errorf("%s is %v (%v), want %v", figure, v, ok, want)
			}
		}
	}
}

// figures are the medians in a JSON file.
func figures(t *testing.T, file string) map[string]float64 {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Figures []struct {
			Experiment, Case, Contender, Metric string
			Median                              any
		}
	}
	if err := json.Unmarshal(b, &d); err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range d.Figures {
		if v, ok := f.Median.(float64); ok {
			got[strings.Join([]string{f.Experiment, f.Case, f.Contender, f.Metric}, "|")] = v
		}
	}
	return got
}

// check looks for what must be true on any machine.
func check(t *testing.T, file string) {
	t.Helper()
	got := figures(t, file)
	for _, who := range []string{"redis", "redislock"} {
		// Two for each of fifty pairs, and some more if connections had to be opened, or a lock renewed.
		if n := got["alone||"+who+"|requests"]; n < 2 || n > 2.3 {
			t.Errorf("%s takes %v requests for a pair, want 2", who, n)
		}
	}
	for figure, want := range map[string]float64{
		"contended|16 clients|redis|two inside":                              0,
		"permits|1 of 10 permits|redis|too many":                             0,
		"permits|1 of 10 permits|redis|stuck":                                0,
		"hand-over|3 processes of 16 goroutines|redis|two inside":            0,
		"shop|no faults|redis|oversold":                                      0,
		"shop|no faults|redislock|oversold":                                  0,
		"failover|" + redisFailover + "|redis|two hold":                      100,
		"failover|" + redisFailover + "|redis|told apart":                    100,
		"failover|" + redisFailover + "|redislock|told apart":                0,
		"shop|a holder paused beyond its TTL, tokens checked|redis|oversold": 0,
		"shop|a holder paused beyond its TTL|redis|told":                     100,
		"waiting|20 clients|redis|stuck":                                     0,
		"scale|100 names held at once|redis|lost":                            0,
	} {
		if v, ok := got[figure]; !ok || v != want {
			t.Errorf("%s is %v, want %v", figure, v, want)
		}
	}
	// On a machine that is late others than the holder who was paused may write too late.
	if n := got["shop|a holder paused beyond its TTL, tokens checked|redis|refused"]; n < 1 || n > 9 {
		t.Errorf("%v writes were refused, want that of the holder who was paused", n)
	}
	for _, figure := range []string{"shop|no faults|no-lock|oversold", "shop|a holder paused beyond its TTL|redislock|oversold", "alone||redis|rate", "readers|64 readers of one name|redis|rate", "readers|a writer among 64 readers|redis|in hand-overs", "death|killed, TTL 2s|redis|next holder"} {
		if got[figure] <= 0 {
			t.Errorf("%s is %v, want more than 0", figure, got[figure])
		}
	}
}

const redisFailover = "Redis master dies before its replica saw the lock"

// Without the programs it measures what it can, and says what is missing and how to get it.
func TestWithoutServers(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("LOCKER_REDIS", "")
	dir := t.TempDir()
	out, errs, err := compare(t, "-smoke", "-repeat", "1", "-backends", "memory,file,redis", "-rivals", "none", "-experiments", "alone,contended,death", "-out", dir)
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, errs)
	}
	if !strings.Contains(out, "redis-1 could not be started") || !strings.Contains(out, "make setup") {
		t.Errorf("it does not say what is missing:\n%s", out)
	}
	got := figures(t, filepath.Join(dir, "report.json"))
	for _, figure := range []string{
		"alone||memory|rate", "contended|16 clients|memory|acquire p99", "alone||file|rate", "contended|16 clients|file|acquire p99",
		"death|killed, TTL 2s|file|next holder",
	} {
		if got[figure] <= 0 {
			t.Errorf("%s is %v, want more than 0", figure, got[figure])
		}
	}
	for _, who := range []string{"memory", "file"} {
		if got["contended|16 clients|"+who+"|two inside"] != 0 {
			t.Errorf("%s let two in:\n%s", who, out)
		}
	}
}

// Whoever has seen enough gets a report of what has been measured, and no server is left.
func TestInterrupt(t *testing.T) {
	servers.Need(t)
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0],
		"-smoke", "-backends", "redis", "-rivals", "none", "-experiments", "alone,death", "-repeat", "10", "-out", "none")
	tmp := t.TempDir() // where servers have their data until they are stopped
	cmd.Env = append(os.Environ(), asCommand+"=1", "TMPDIR="+tmp)
	var out bytes.Buffer
	cmd.Stdout = &out
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for s := bufio.NewScanner(said); s.Scan() && !strings.Contains(s.Text(), "Death"); { // then, some has been measured
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, said)
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 130 {
		t.Errorf("it ended with %v", err)
	}
	if !strings.Contains(out.String(), "interrupted: what had not been measured") || !strings.Contains(out.String(), "acquire+release") {
		t.Errorf("it does not report what it has:\n%s", out.String())
	}
	left, err := os.ReadDir(tmp)
	if err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}

func TestWrongFlagEndsAtOnce(t *testing.T) {
	_, errs, err := compare(t, "-backends", "oracle")
	if err == nil || !strings.Contains(errs, `"oracle" is none of`) {
		t.Errorf("%v: %s", err, errs)
	}
}

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/benchmarks/catalog"
	"github.com/seed80cd6120/locker/benchmarks/child"
	"github.com/seed80cd6120/locker/benchmarks/experiment"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/servers"
)

var must = locktest.Must

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

// smoke runs the smallest comparison with args, up to three times until nothing fails and all figures are as wanted, since the
// machine may stand still meanwhile. Whatever says that locks do not exclude ends the test at once. It returns what the last
// one printed and the folder of its reports.
func smoke(t *testing.T, wanted map[string][2]float64, args ...string) (out, dir string) {
	t.Helper()
	for try := 1; ; try++ {
		dir = t.TempDir()
		out, errs, err := compare(t, append([]string{"-smoke", "-repeat", "1", "-out", dir}, args...)...)
		if err != nil {
			t.Fatalf("%v\n%s\n%s", err, out, errs)
		}
		complaints, unsafe := unexpected(figures(t, filepath.Join(dir, "report.json")), wanted)
		if strings.Contains(out, "failed:") {
			complaints = append(complaints, "something failed:\n"+out)
		}
		if len(complaints) == 0 {
			return out, dir
		}
		if unsafe || try == 3 {
			t.Fatal(strings.Join(complaints, "\n"))
		}
		t.Logf("once more, because %s", strings.Join(complaints, "\n"))
	}
}

// says complains if something wanted was not printed.
func says(t *testing.T, out string, wanted ...string) {
	t.Helper()
	for _, want := range wanted {
		if !strings.Contains(out, want) {
			t.Errorf("it did not print %q:\n%s", want, out)
		}
	}
}

// none and some are for what is wanted.
var (
	none = [2]float64{0, 0}
	some = [2]float64{math.SmallestNonzeroFloat64, math.Inf(1)}
)

// exclusion is of figures that no late machine makes more than wanted.
var exclusion = regexp.MustCompile(`\|(two inside|too many|oversold|wrong together)$`)

// unexpected complains of figures that are missing, less than the first of what is wanted, or more than the second, and
// reports whether one of them says that locks do not exclude.
func unexpected(got map[string]float64, wanted map[string][2]float64) (complaints []string, unsafe bool) {
	for figure, want := range wanted {
		if v, ok := got[figure]; !ok || v < want[0] || v > want[1] {
			complaints = append(complaints, fmt.Sprintf("%s is %v (%v), want %v", figure, v, ok, want))
			unsafe = unsafe || v > want[1] && exclusion.MatchString(figure)
		}
	}
	return complaints, unsafe
}

// The smallest comparison on a real server, with processes that are killed and paused.
func TestSmoke(t *testing.T) {
	servers.Need(t)
	t.Parallel()
	const failover = "failover|Redis master dies before its replica saw the lock|"
	wanted := map[string][2]float64{
		// Two for each of fifty pairs, and some more if connections had to be opened, or a lock renewed.
		"alone||redis|requests":                                              {2, 2.3},
		"alone||redislock|requests":                                          {2, 2.3},
		"contended|16 clients|redis|two inside":                              none,
		"permits|1 of 10 permits|redis|too many":                             none,
		"permits|1 of 10 permits|redis|stuck":                                none,
		"hand-over|3 processes of 16 goroutines|redis|two inside":            none,
		"shop|no faults|redis|oversold":                                      none,
		"shop|no faults|redislock|oversold":                                  none,
		failover + "redis|two hold":                                          {100, 100},
		failover + "redis|told apart":                                        {100, 100},
		failover + "redislock|told apart":                                    none,
		"shop|a holder paused beyond its TTL, tokens checked|redis|oversold": none,
		"shop|a holder paused beyond its TTL|redis|told":                     {100, 100},
		"waiting|20 clients|redis|stuck":                                     none,
		"scale|100 names held at once|redis|lost":                            none,
		// That of the holder who was paused; on a machine that is late others may write too late.
		"shop|a holder paused beyond its TTL, tokens checked|redis|refused": {1, 9},
		"shop|no faults|no-lock|oversold":                                   some,
		"shop|a holder paused beyond its TTL|redislock|oversold":            some,
		"alone||redis|rate":                                     some,
		"readers|64 readers of one name|redis|rate":             some,
		"readers|a writer among 64 readers|redis|in hand-overs": some,
		"death|killed, TTL 2s|redis|next holder":                some,
	}
	out, dir := smoke(t, wanted, "-backends", "redis", "-rivals", "redislock")
	again, _, err := compare(t, "-from", filepath.Join(dir, "report.json"), "-out", "none")
	if err != nil || !strings.HasPrefix(out, again) {
		t.Errorf("made again from its file, %v, the report is\n%s\nand was\n%s", err, again, out)
	}
	fillsPage(t, dir)
	says(t, out, "Alone", "16 clients", "killed, TTL 2s", "redislock", "Which one?", "at least 0.85 of redislock's rate")
	for _, name := range []string{"report.md", "report.html", "report.json", "plots/rates.svg"} {
		if st, err := os.Stat(filepath.Join(dir, name)); err != nil || st.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Locks in databases are compared with each other.
func TestDatabases(t *testing.T) {
	servers.Need(t)
	t.Parallel()
	out, _ := smoke(t, nil, "-backends", "postgres,mysql", "-experiments", "alone,death")
	says(t, out, "PostgreSQL 1", "postgres-durable", "pglock", "floor-postgres-1", "MariaDB 10", "killed, TTL 2s")
}

// fillsPage has the figures of a run put between the marks of a page, twice.
func fillsPage(t *testing.T, dir string) {
	t.Helper()
	file := filepath.Join(dir, "comparison.md")
	must(t, os.WriteFile(file, []byte("before\n"+markBegin+"\nold\n"+markEnd+"\nafter\n"), 0o644))
	var was string
	for range 2 {
		if out, errs, err := compare(t, "-from", filepath.Join(dir, "report.json"), "-out", "none", "-page", file); err != nil {
			t.Fatalf("%v\n%s\n%s", err, out, errs)
		}
		b, err := os.ReadFile(file)
		must(t, err)
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
	must(t, os.WriteFile(file, []byte("no marks"), 0o644))
	if _, errs, err := compare(t, "-from", filepath.Join(dir, "report.json"), "-out", "none", "-page", file); err == nil || !strings.Contains(errs, "no marks") {
		t.Errorf("without marks: %v, %s", err, errs)
	}
}

// What is run only if it is named: the two recipes of readers and writers are among those that ZooKeeper runs.
func TestSmokeOfExperimentsOnDemand(t *testing.T) {
	servers.Need(t)
	t.Parallel()
	wanted := map[string][2]float64{
		"delay|alone, 5 ms|zookeeper-1|two inside":                   none,
		"delay|16 clients, 5 ms|zookeeper-1|two inside":              none,
		"delay|alone, 5 ms|zookeeper-1|round trips":                  {2, math.Inf(1)}, // for a lock and its release
		"read-write|50 % writes|zookeeper-1|wrong together":          none,
		"read-write|50 % writes|naive.rw-parent|wrong together":      none,
		"read-write|50 % writes|naive.rw-last-writer|wrong together": none,
		"processes|2 × 4, hand-over|zookeeper-1|two inside":          none,
		"many-held|100 names held at once|zookeeper-1|lost":          none,
	}
	smoke(t, wanted, "-backends", "zookeeper-1", "-rivals", "none", "-experiments", "delay,read-write,processes,many-held")
}

// What is counted in another way on each kind of server.
func TestSmokeOfOtherServers(t *testing.T) {
	servers.Need(t)
	t.Parallel()
	wanted := map[string][2]float64{}
	for _, who := range []string{"zookeeper-1", "etcd-1"} {
		// From and to: on a busy machine those who come 100 ms apart may change places, and readers may ask and hold again and again
		// before a writer's request, which was made first, comes to the server.
		maps.Copy(wanted, map[string][2]float64{
			"alone||" + who + "|requests":                             {2, 2.3}, // a third request for each pair makes it 3
			"waiting|20 clients|" + who + "|stuck":                    none,
			"waiting|20 clients|" + who + "|drain":                    {1, 20},
			"herd|20 waiters|" + who + "|requests":                    {1, 10},
			"fairness|24 clients|" + who + "|out of order":            {0, 30}, // by chance it is 50
			"readers|a writer among 64 readers|" + who + "|overtaken": {0, 640},
			"scale|100 names held at once|" + who + "|lost":           none,
			"scale|100 names held at once|" + who + "|goroutines":     {0, .3},
		})
	}
	smoke(t, wanted, "-backends", "zookeeper-1,etcd-1", "-rivals", "none", "-experiments", "alone,waiting,herd,fairness,scale,readers")
}

// figures are the medians in a JSON file.
func figures(t *testing.T, file string) map[string]float64 {
	t.Helper()
	b, err := os.ReadFile(file)
	must(t, err)
	var d struct {
		Figures []struct {
			Experiment, Case, Contender, Metric string
			Median                              any
		}
	}
	must(t, json.Unmarshal(b, &d))
	got := map[string]float64{}
	for _, f := range d.Figures {
		if v, ok := f.Median.(float64); ok {
			got[strings.Join([]string{f.Experiment, f.Case, f.Contender, f.Metric}, "|")] = v
		}
	}
	return got
}

// Without the programs it measures what it can, and says what is missing and how to get it.
func TestWithoutServers(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("LOCKER_REDIS", "")
	wanted := map[string][2]float64{
		"alone||memory|rate":                      some,
		"contended|16 clients|memory|acquire p99": some,
		"contended|16 clients|memory|two inside":  none,
		"alone||file|rate":                        some,
		"contended|16 clients|file|acquire p99":   some,
		"contended|16 clients|file|two inside":    none,
		"death|killed, TTL 2s|file|next holder":   some,
	}
	out, _ := smoke(t, wanted, "-backends", "memory,file,redis", "-rivals", "none", "-experiments", "alone,contended,death")
	says(t, out, "redis-1 could not be started", "make setup")
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
	must(t, err)
	must(t, cmd.Start())
	for s := bufio.NewScanner(said); s.Scan() && !strings.Contains(s.Text(), "Death"); { // then, some has been measured
	}
	must(t, cmd.Process.Signal(os.Interrupt))
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

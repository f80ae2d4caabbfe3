//go:build linux

package main

import (
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/internal/locktest"
)

// Processes that wait for one name take less than a hundredth of a percent of a processor each. There are not more of them so that there
// are inotify instances left for other tests: a user has 128 as a rule.
func TestWaitingIsCheap(t *testing.T) {
	if testing.Short() {
		t.Skip("measures processes for ten seconds")
	}
	t.Parallel()
	url := place(t)
	hold(t, url, "x")
	waiters := make([]*process, 25)
	for n := range waiters {
		waiters[n] = start(t, url, "run", "x", "--", "true")
	}
	waitsFor(t, url, "x", len(waiters))
	var pids []int
	for _, w := range waiters {
		pids = append(pids, w.cmd.Process.Pid)
	}
	locktest.Idle(t, 0.0001, pids...) // renewals take part: they are due at a third of the TTL
}

// BenchmarkStart compares locker run -n NAME true with flock(1), one by turns with the other, and reports the
// medians and their ratio.
func BenchmarkStart(b *testing.B) {
	dir := b.TempDir()
	ours := []string{binary, "run", "--url", "file://" + dir + "/locks", "-n", "x", "true"}
	theirs := []string{"flock", "-n", dir + "/flock", "true"}
	var times [2][]time.Duration
	for b.Loop() {
		for n, args := range [][]string{ours, theirs} {
			cmd := exec.Command(args[0], args[1:]...)
			cmd.Stdin, cmd.Stderr = nil, nil
			begin := time.Now()
			if err := cmd.Run(); err != nil {
				b.Fatalf("%v: %v", args, err)
			}
			times[n] = append(times[n], time.Since(begin))
		}
	}
	median := func(d []time.Duration) float64 {
		slices.Sort(d)
		return float64(d[len(d)/2]) / float64(time.Millisecond)
	}
	b.ReportMetric(median(times[0]), "ms-locker")
	b.ReportMetric(median(times[1]), "ms-flock")
	b.ReportMetric(median(times[0])/median(times[1]), "ratio")
}

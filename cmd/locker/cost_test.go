//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A hundred processes that wait for one name take less than a hundredth of a core together.
func TestWaitingIsCheap(t *testing.T) {
	if testing.Short() {
		t.Skip("measures a hundred processes for ten seconds")
	}
	t.Parallel()
	url := place(t)
	hold(t, url, "x")
	waiters := make([]*process, 100)
	for n := range waiters {
		waiters[n] = start(t, url, "run", "x", "--", "true")
	}
	waitsFor(t, url, "x", len(waiters))
	cpu := func() time.Duration {
		var sum time.Duration
		for _, w := range waiters {
			sum += cpuTime(t, w.cmd.Process.Pid)
		}
		return sum
	}
	// On a machine that is late they are still coming up while the first windows last, and look themselves when a
	// renewal has come late.
	least := 1.0
	for window := 0; window < 12 && least >= 0.01; window++ {
		begin, used := time.Now(), cpu()
		time.Sleep(10 * time.Second) // renewals take part: they are due at a third of the TTL
		share := float64(cpu()-used) / float64(time.Since(begin))
		t.Logf("%d waiting processes take %.2f %% of a core", len(waiters), share*100)
		least = min(least, share)
	}
	if least >= 0.01 {
		t.Error("that is never less than 1 %")
	}
}

// cpuTime returns for how long the threads of a process have run.
func cpuTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(files) == 0 {
		t.Fatalf("process %d: %d threads, %v", pid, len(files), err)
	}
	var sum time.Duration
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		first, _, _ := strings.Cut(string(text), " ")
		nanoseconds, err := strconv.ParseInt(first, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += time.Duration(nanoseconds)
	}
	return sum
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

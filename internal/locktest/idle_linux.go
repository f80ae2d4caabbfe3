package locktest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/internal/lateness"
)

// lateFactor is how many times as much processor time a wake-up takes at most where others have used the caches in between.
const lateFactor = 10

// Idle measures how much of a processor the processes, which wait, use; it ends the test if that is share or more for each of them in
// twelve times ten seconds. One in which it is less is enough: before, they may have been starting. On a machine that is late
// more is allowed.
func Idle(t testing.TB, share float64, pids ...int) {
	t.Helper()
	idle(t, share*float64(len(pids)), 12, 10*time.Second, pids)
}

func idle(t testing.TB, limit float64, windows int, each time.Duration, pids []int) {
	t.Helper()
	late, giveBack := lateness.Share()
	defer giveBack()
	for window := 1; ; window++ {
		begin, used := time.Now(), processorTime(t, pids)
		time.Sleep(each)
		share := float64(processorTime(t, pids)-used) / float64(time.Since(begin))
		allowed := limit
		if late.Worst(begin) > lateness.Limit {
			allowed *= lateFactor
		}
		t.Logf("%d waiting processes use %.2f %% of a processor; allowed are %.2f %%", len(pids), 100*share, 100*allowed)
		if share < allowed {
			return
		}
		if window == windows {
			t.Fatal("that was never less")
		}
	}
}

// processorTime returns for how long the threads of the processes have run.
func processorTime(t testing.TB, pids []int) (sum time.Duration) {
	t.Helper()
	for _, pid := range pids {
		files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
		if err != nil || len(files) == 0 {
			t.Fatalf("process %d: %d threads, %v", pid, len(files), err)
		}
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
	}
	return sum
}

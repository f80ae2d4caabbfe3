package replica

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
)

// Migrate has four replicas, whose locks are files, call up at the same time. newUp makes the up of one replica, and run is to
// be called with each migration; Migrate returns how often it was.
func Migrate(t *testing.T, newUp func(l locker.Locker, run func()) (up func())) int {
	t.Helper()
	dir := t.TempDir()
	var runs atomic.Int32
	var ups []func()
	for range 4 {
		ups = append(ups, newUp(Files(t, dir), func() {
			runs.Add(1)
			time.Sleep(20 * time.Millisecond) // long enough for the others to come
		}))
	}
	var wg sync.WaitGroup
	for _, up := range ups {
		wg.Go(up)
	}
	wg.Wait()
	return int(runs.Load())
}

package locker_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/memory"
)

// Promise 10: beside a writer the readers of one Locker get as many reads as those of as many
// Lockers.
func TestReadersOfOneLocker(t *testing.T) {
	const readers, writes = 16, 200
	perWrite := func(t *testing.T, lockers int) (reads float64) {
		synctest.Test(t, func(t *testing.T) {
			s := memory.NewStore()
			writer := openStore(t, s)
			var all []locker.Locker
			for range lockers {
				all = append(all, openStore(t, s))
			}
			hold := func(l locker.Locker, opts ...locker.AcquireOption) {
				lock, err := l.Acquire(t.Context(), "x", opts...)
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Millisecond)
				_ = lock.Release(t.Context())
			}
			var mu sync.Mutex
			done, n := false, 0
			var wg sync.WaitGroup
			for i := range readers {
				wg.Go(func() {
					for over := false; !over; {
						hold(all[i%lockers], locker.Shared())
						mu.Lock()
						n++
						over = done
						mu.Unlock()
					}
				})
			}
			for range writes {
				hold(writer)
			}
			mu.Lock()
			done = true
			reads = float64(n) / writes
			mu.Unlock()
			wg.Wait()
		})
		return reads
	}
	one, many := perWrite(t, 1), perWrite(t, readers)
	t.Logf("%.1f reads for each write with one Locker, %.1f with %d", one, many, readers)
	if one < 0.9*many {
		t.Errorf("%.1f reads for each write with one Locker, %.1f with %d", one, many, readers)
	}
}

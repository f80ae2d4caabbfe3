package replica

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/memory"
)

// Job is a job that is run under a lock.
type Job func(ctx context.Context, lock *locker.Lock) error

// RunsInAnHour starts a job on two replicas, 0 and 1, and returns how often it was run in the hour after that. It has to be called
// in a bubble of testing/synctest; the hour begins half a minute past the full one.
func RunsInAnHour(t *testing.T, start func(l locker.Locker, replica int, count func())) int {
	t.Helper()
	s := memory.NewStore()
	var runs atomic.Int32
	time.Sleep(30 * time.Second)
	for i := range 2 {
		start(New(t, s), i, func() { runs.Add(1) })
	}
	time.Sleep(time.Hour)
	return int(runs.Load())
}

// LosesLock cuts a replica off while it runs a job under the lock named "job". The test fails unless the context of the job has ended,
// with cause ErrLost, when another replica has the lock. The job returns then, and check looks at what has become of it.
// It has to be called in a bubble of testing/synctest.
func LosesLock(t *testing.T, start func(l locker.Locker, job Job), check func()) {
	t.Helper()
	s := memory.NewStore()
	a, link := Remote(t, s)
	b := New(t, s)
	running := make(chan struct{})
	ended := make(chan error, 1)
	start(a, func(ctx context.Context, _ *locker.Lock) error {
		close(running)
		link.Freeze()
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return context.Cause(ctx)
	})
	<-running
	successor, err := b.Acquire(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	select {
	case cause := <-ended:
		if !errors.Is(cause, locker.ErrLost) {
			t.Errorf("the cause is %v", cause)
		}
	default:
		t.Error("another has the lock, and the context of the job has not ended")
	}
	link.Heal()
	check()
	if err := successor.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// NoOverlap starts a job on two replicas whose locks are files. The test fails if two of its runs overlap, of so many.
func NoOverlap(t *testing.T, runs int, start func(l locker.Locker, run func())) {
	t.Helper()
	dir := t.TempDir()
	var inside atomic.Int32
	enough := make(chan struct{}, 1000)
	for range 2 {
		start(Files(t, dir), func() {
			if inside.Add(1) != 1 {
				t.Error("two runs at the same time")
			}
			time.Sleep(5 * time.Millisecond)
			inside.Add(-1)
			enough <- struct{}{}
		})
	}
	for range runs {
		<-enough
	}
}

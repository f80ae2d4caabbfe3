package lockcron

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/robfig/cron/v3"
	"go.uber.org/goleak"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/adapters/internal/replica"
	"github.com/seed80cd6120/locker/file"
	"github.com/seed80cd6120/locker/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newLocker(t *testing.T, s *memory.Store) locker.Locker {
	t.Helper()
	l, err := s.Locker()
	return replica.CloseAtEnd(t, l, err)
}

// start runs one job until the test ends.
func start(t *testing.T, schedule string, job cron.Job) {
	t.Helper()
	c := cron.New(cron.WithSeconds(), cron.WithLocation(time.UTC))
	if _, err := c.AddJob(schedule, job); err != nil {
		t.Fatal(err)
	}
	c.Start()
	t.Cleanup(func() { <-c.Stop().Done() })
}

// lines is a log.
type lines struct {
	mu   sync.Mutex
	text []string
}

func (l *lines) Info(msg string, keys ...any) { l.Error(nil, msg, keys...) }

func (l *lines) Error(err error, msg string, keys ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, fmt.Sprint(err, " ", msg, keys))
}

func (l *lines) has(part string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(strings.Join(l.text, "\n"), part)
}

// late is a schedule by a clock that is behind.
type late struct {
	cron.Schedule
	by time.Duration
}

func (s late) Next(t time.Time) time.Time { return s.Schedule.Next(t.Add(-s.by)).Add(s.by) }

// A job that is over at once does not run again on the replica whose clock is behind. Without atLeast it does.
func TestShortJob(t *testing.T) {
	for _, c := range []struct {
		atLeast time.Duration
		wrapped bool
		want    int32
	}{{30 * time.Second, false, 60}, {30 * time.Second, true, 60}, {0, false, 120}, {0, true, 120}} {
		t.Run(fmt.Sprint(c.atLeast, c.wrapped), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memory.NewStore()
				var runs atomic.Int32
				var log lines
				time.Sleep(30 * time.Second)
				for i := range 2 {
					jobs := New(newLocker(t, store), c.atLeast, &log)
					job := jobs.Job(t.Context(), "job", func(context.Context, *locker.Lock) error { runs.Add(1); return nil })
					if c.wrapped {
						job = jobs.Wrapper("job")(cron.FuncJob(func() { runs.Add(1) }))
					}
					schedule, err := cron.ParseStandard("* * * * *")
					if err != nil {
						t.Fatal(err)
					}
					clock := cron.New(cron.WithLocation(time.UTC))
					clock.Schedule(late{schedule, time.Duration(i) * 5 * time.Second}, job)
					clock.Start()
					t.Cleanup(func() { <-clock.Stop().Done() })
				}
				time.Sleep(time.Hour)
				if n := runs.Load(); n != c.want {
					t.Errorf("%d runs in an hour, want %d", n, c.want)
				}
				if skipped := log.has("skip: the lock is taken[lock job]"); skipped != (c.atLeast > 0) {
					t.Errorf("skipped: %v", skipped)
				}
			})
		})
	}
}

// The context of a job ends when the lock is lost, before another has it.
func TestLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		a, link, err := store.Remote()
		replica.CloseAtEnd(t, a, err)
		b := newLocker(t, store)
		var log lines
		var ended atomic.Bool
		start(t, "0 1 * * * *", New(a, 0, &log).Job(t.Context(), "job", func(ctx context.Context, _ *locker.Lock) error {
			link.Freeze()
			<-ctx.Done()
			ended.Store(true)
			return context.Cause(ctx)
		}))
		time.Sleep(time.Minute + time.Second)
		successor, err := b.Acquire(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		if !ended.Load() {
			t.Error("another has the lock, and the context of the job has not ended")
		}
		link.Heal()
		synctest.Wait()
		if !log.has(locker.ErrLost.Error()) || !log.has(" run[lock job]") {
			t.Errorf("log: %v", log.text)
		}
		if err := successor.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A job under a context that ends stops, and the name is free.
func TestCancelled(t *testing.T) {
	store := memory.NewStore()
	a, b := newLocker(t, store), newLocker(t, store)
	ctx, cancel := context.WithCancel(t.Context())
	var log lines
	jobs := New(a, 0, &log)
	jobs.Job(ctx, "job", func(ctx context.Context, _ *locker.Lock) error {
		cancel()
		<-ctx.Done()
		return nil
	}).Run()
	lock, err := b.TryAcquire(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Release(t.Context()); err != nil {
		t.Error(err)
	}
	jobs.Job(ctx, "job", func(context.Context, *locker.Lock) error { t.Error("run"); return nil }).Run()
	if len(log.text) != 1 || !log.has(context.Canceled.Error()) {
		t.Errorf("log: %v", log.text)
	}
}

// A job that panics frees the name, and what wraps it in the chain sees the panic.
func TestPanic(t *testing.T) {
	store := memory.NewStore()
	a, b := newLocker(t, store), newLocker(t, store)
	var log lines
	cron.NewChain(cron.Recover(&log), New(a, 0, &log).Wrapper("job")).Then(cron.FuncJob(func() { panic("out of paper") })).Run()
	if !log.has("out of paper panic") {
		t.Errorf("log: %v", log.text)
	}
	lock, err := b.TryAcquire(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// Servers that are away have a run skipped, with the reason in the log.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		l, link, err := store.Remote()
		replica.CloseAtEnd(t, l, err)
		var log lines
		job := New(l, 0, &log).Wrapper("job")(cron.FuncJob(func() { t.Error("run") }))
		store.Fail(errors.New("out of order"))
		job.Run()
		store.Heal()
		if !log.has("out of order skip[lock job]") {
			t.Errorf("log: %v", log.text)
		}
		link.Freeze()
		begun := time.Now()
		if job.Run(); time.Since(begun) > answer {
			t.Errorf("skipped after %v", time.Since(begun))
		}
		link.Heal()
	})
}

// Two replicas whose locks are files: no two runs overlap.
func TestFile(t *testing.T) {
	dir := t.TempDir()
	var inside atomic.Int32
	enough := make(chan struct{}, 1000)
	for range 2 {
		l, err := file.New(dir)
		replica.CloseAtEnd(t, l, err)
		start(t, "* * * * * *", New(l, 0, cron.DiscardLogger).Wrapper("job")(cron.FuncJob(func() {
			if inside.Add(1) != 1 {
				t.Error("two runs at the same time")
			}
			time.Sleep(5 * time.Millisecond)
			inside.Add(-1)
			enough <- struct{}{}
		})))
	}
	for range 2 {
		<-enough
	}
}

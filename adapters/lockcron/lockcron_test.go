package lockcron

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/robfig/cron/v3"
	"go.uber.org/goleak"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/adapters/internal/replica"
	"github.com/seed80cd6120/locker/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
		want    int
	}{{30 * time.Second, false, 60}, {30 * time.Second, true, 60}, {0, false, 120}, {0, true, 120}} {
		t.Run(fmt.Sprint(c.atLeast, c.wrapped), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log lines
				runs := replica.RunsInAnHour(t, func(l locker.Locker, i int, count func()) {
					jobs := New(l, c.atLeast, &log)
					job := jobs.Job(t.Context(), "job", func(context.Context, *locker.Lock) error { count(); return nil })
					if c.wrapped {
						job = jobs.Wrapper("job")(cron.FuncJob(count))
					}
					schedule, err := cron.ParseStandard("* * * * *")
					if err != nil {
						t.Fatal(err)
					}
					clock := cron.New(cron.WithLocation(time.UTC))
					clock.Schedule(late{schedule, time.Duration(i) * 5 * time.Second}, job)
					clock.Start()
					t.Cleanup(func() { <-clock.Stop().Done() })
				})
				if runs != c.want {
					t.Errorf("%d runs in an hour, want %d", runs, c.want)
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
		var log lines
		replica.LosesLock(t, func(l locker.Locker, job replica.Job) {
			start(t, "0 1 * * * *", New(l, 0, &log).Job(t.Context(), "job", job))
		}, func() {
			synctest.Wait()
			if !log.has(locker.ErrLost.Error()) || !log.has(" run[lock job]") {
				t.Errorf("log: %v", log.text)
			}
		})
	})
}

// A job under a context that ends stops, and the name is free.
func TestCancelled(t *testing.T) {
	a, b := replica.Two(t)
	ctx, cancel := context.WithCancel(t.Context())
	var log lines
	jobs := New(a, 0, &log)
	jobs.Job(ctx, "job", func(ctx context.Context, _ *locker.Lock) error {
		cancel()
		<-ctx.Done()
		return nil
	}).Run()
	replica.Free(t, b, "job")
	jobs.Job(ctx, "job", func(context.Context, *locker.Lock) error { t.Error("run"); return nil }).Run()
	if len(log.text) != 1 || !log.has(context.Canceled.Error()) {
		t.Errorf("log: %v", log.text)
	}
}

// A job that panics frees the name, and what wraps it in the chain sees the panic.
func TestPanic(t *testing.T) {
	a, b := replica.Two(t)
	var log lines
	cron.NewChain(cron.Recover(&log), New(a, 0, &log).Wrapper("job")).Then(cron.FuncJob(func() { panic("out of paper") })).Run()
	if !log.has("out of paper panic") {
		t.Errorf("log: %v", log.text)
	}
	replica.Free(t, b, "job")
}

// Servers that are away have a run skipped, with the reason in the log.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		l, link := replica.Remote(t, store)
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
	replica.NoOverlap(t, 2, func(l locker.Locker, run func()) {
		start(t, "* * * * * *", New(l, 0, cron.DiscardLogger).Wrapper("job")(cron.FuncJob(run)))
	})
}

// All of this is so with the newest release of cron, too.
func TestNewest(t *testing.T) { replica.Newest(t) }

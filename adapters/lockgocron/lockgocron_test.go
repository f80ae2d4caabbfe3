package lockgocron

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/adapters/internal/replica"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs a scheduler with one job until the test ends.
func start(t *testing.T, every time.Duration, task gocron.Task, job []gocron.JobOption, scheduler ...gocron.SchedulerOption) gocron.Scheduler {
	t.Helper()
	s, err := gocron.NewScheduler(scheduler...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Shutdown() })
	if _, err := s.NewJob(gocron.DurationJob(every), task, job...); err != nil {
		t.Fatal(err)
	}
	s.Start()
	return s
}

// A job that is over at once does not run again on the next replica, whose interval began at another time
// (gocron's issue 841). Without atLeast it does.
func TestShortJob(t *testing.T) {
	for _, c := range []struct {
		name    string
		start   func(t *testing.T, l locker.Locker, atLeast time.Duration, count func())
		atLeast time.Duration
		want    int
	}{
		{"locker", startWithLocker, 54 * time.Second, 60},
		{"locker without atLeast", startWithLocker, 0, 120},
		{"job", startJob, 54 * time.Second, 60},
		{"job without atLeast", startJob, 0, 120},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				runs := replica.RunsInAnHour(t, func(l locker.Locker, _ int, count func()) {
					c.start(t, l, c.atLeast, count)
					time.Sleep(20 * time.Second) // the interval of the next one begins so much later
				})
				if runs != c.want {
					t.Errorf("%d runs in an hour, want %d", runs, c.want)
				}
			})
		})
	}
}

func startWithLocker(t *testing.T, l locker.Locker, atLeast time.Duration, count func()) {
	start(t, time.Minute, gocron.NewTask(count), []gocron.JobOption{gocron.WithName("job")},
		gocron.WithDistributedLocker(NewLocker(l, atLeast)))
}

func startJob(t *testing.T, l locker.Locker, atLeast time.Duration, count func()) {
	task, once := Job(l, "job", atLeast, func(context.Context, *locker.Lock) error { count(); return nil })
	start(t, time.Minute, task, []gocron.JobOption{once})
}

// The context of the task ends when the lock is lost, before the next replica runs the job, and the task fails.
func TestLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := make(chan error, 1)
		replica.LosesLock(t, func(l locker.Locker, job replica.Job) {
			task, once := Job(l, "job", 0, func(ctx context.Context, lock *locker.Lock) error {
				_ = job(ctx, lock)
				return nil // the task fails all the same
			})
			start(t, time.Hour, task, []gocron.JobOption{once, gocron.WithStartAt(gocron.WithStartImmediately()),
				gocron.WithEventListeners(gocron.AfterJobRunsWithError(func(_ uuid.UUID, _ string, err error) { failed <- err }))})
		}, func() {
			if err := <-failed; !errors.Is(err, locker.ErrLost) {
				t.Errorf("the task failed with %v", err)
			}
		})
	})
}

// A shutdown cancels the context with which gocron unlocks. The name is free after it.
func TestShutdownFrees(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := replica.Two(t)
		task, once := Job(a, "job", 0, func(ctx context.Context, _ *locker.Lock) error {
			<-ctx.Done()
			return ctx.Err()
		})
		s := start(t, time.Hour, task, []gocron.JobOption{once, gocron.WithStartAt(gocron.WithStartImmediately())})
		time.Sleep(time.Minute)
		if _, err := b.TryAcquire(t.Context(), "job"); !errors.Is(err, locker.ErrNotAcquired) {
			t.Fatalf("while the job runs: %v", err)
		}
		if err := s.Shutdown(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		replica.Free(t, b, "job")
	})
}

// Unlock with a context that has ended has released the lock when it returns.
func TestUnlockCancelled(t *testing.T) {
	a, b := replica.Two(t)
	for _, l := range []gocron.Locker{NewLocker(a, 0), &once{l: a, name: "x"}} {
		lock, err := l.Lock(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := lock.Unlock(ctx); err != nil {
			t.Error(err)
		}
		replica.Free(t, b, "x")
	}
}

// A server that does not answer has a run skipped, not held up.
func TestNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, link := replica.Remote(t, memory.NewStore())
		link.Freeze()
		begun := time.Now()
		if _, err := NewLocker(l, 0).Lock(t.Context(), "x"); err == nil || time.Since(begun) > answer {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		link.Heal()
	})
}

// A task that gocron runs without its lock does nothing.
func TestNoLock(t *testing.T) {
	failed := make(chan error, 1)
	task, _ := Job(replica.New(t, memory.NewStore()), "job", 0, func(context.Context, *locker.Lock) error {
		t.Error("run")
		return nil
	})
	start(t, time.Hour, task, []gocron.JobOption{gocron.WithStartAt(gocron.WithStartImmediately()),
		gocron.WithEventListeners(gocron.AfterJobRunsWithError(func(_ uuid.UUID, _ string, err error) { failed <- err }))})
	if err := <-failed; !errors.Is(err, ErrNoLock) {
		t.Error(err)
	}
}

// A lock goes to one run only, also if the run before it was so late that its own was lost.
func TestLateRun(t *testing.T) {
	l := replica.New(t, memory.NewStore())
	o := &once{l: l, name: "x"}
	lock, err := o.Lock(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if o.take() == nil || o.take() != nil {
		t.Error("two runs have one lock")
	}
	if err := lock.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
}

// Runs of one replica may overlap if there are permits for them. One that comes while another has yet to begin is skipped.
func TestOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int32
		task, once := Job(replica.New(t, memory.NewStore()), "job", 0, func(ctx context.Context, _ *locker.Lock) error {
			runs.Add(1)
			time.Sleep(time.Minute)
			return ctx.Err()
		}, locker.Permits(1, 2))
		s := start(t, time.Hour, task, []gocron.JobOption{once, gocron.WithEventListeners(
			gocron.BeforeJobRuns(func(uuid.UUID, string) { time.Sleep(time.Second) }),
			gocron.AfterJobRunsWithError(func(_ uuid.UUID, _ string, err error) { t.Errorf("a run failed: %v", err) }))})
		for _, pause := range []time.Duration{0, 30 * time.Second, 5 * time.Minute} {
			if err := s.Jobs()[0].RunNow(); err != nil {
				t.Error(err)
			}
			time.Sleep(pause)
		}
		if n := runs.Load(); n != 2 {
			t.Errorf("%d runs, want 2", n)
		}
	})
}

// One of two replicas runs the jobs; when it is cut off it stops, and the other goes on.
func TestElector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		a, link := replica.Remote(t, store)
		lockers := []locker.Locker{a, replica.New(t, store)}
		var runs [2]atomic.Int32
		var electors [2]*Elector
		for i, l := range lockers {
			e := NewElector(l, "scheduler")
			t.Cleanup(func() {
				if err := e.Close(context.Background()); err != nil {
					t.Error(err)
				}
			})
			electors[i] = e
			start(t, time.Minute, e.Task(func(context.Context, *locker.Lock) error { runs[i].Add(1); return nil }), nil,
				gocron.WithDistributedElector(e))
			synctest.Wait()
		}
		time.Sleep(time.Hour + time.Second)
		if n, m := runs[0].Load(), runs[1].Load(); n != 60 || m != 0 {
			t.Errorf("%d and %d runs in an hour, want 60 and 0", n, m)
		}
		if err := electors[1].IsLeader(t.Context()); !errors.Is(err, ErrNotLeader) {
			t.Errorf("the second: %v", err)
		}
		link.Freeze()
		time.Sleep(time.Hour)
		if n, m := runs[0].Load(), runs[1].Load(); n > 61 || m < 59 {
			t.Errorf("%d and %d runs after the first was cut off", n, m)
		}
		if err := electors[0].IsLeader(t.Context()); err == nil {
			t.Error("two lead")
		}
		link.Heal()
	})
}

// The name is free when Close returns.
func TestElectorClose(t *testing.T) {
	a, b := replica.Two(t)
	e := NewElector(a, "scheduler")
	eventually.Is(t, "leads", func() bool { return e.IsLeader(t.Context()) == nil })
	if err := e.Close(t.Context()); err != nil {
		t.Error(err)
	}
	replica.Free(t, b, "scheduler")
}

// The context of a leader's task ends with the lead.
func TestElectorLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, link := replica.Remote(t, memory.NewStore())
		e := NewElector(l, "scheduler")
		defer func() {
			if err := e.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		ended := make(chan error)
		start(t, time.Hour, e.Task(func(ctx context.Context, _ *locker.Lock) error {
			link.Freeze()
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return nil
		}), []gocron.JobOption{gocron.WithStartAt(gocron.WithStartImmediately())}, gocron.WithDistributedElector(e))
		if cause := <-ended; !errors.Is(cause, locker.ErrLost) {
			t.Errorf("the cause is %v", cause)
		}
		link.Heal()
	})
}

// Campaigning goes on after an error, and ends for good when the Locker is closed.
func TestElectorErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		l, err := store.Locker()
		if err != nil {
			t.Fatal(err)
		}
		e := NewElector(l, "scheduler")
		synctest.Wait()
		if err := e.IsLeader(t.Context()); err != nil {
			t.Errorf("alone: %v", err)
		}
		bad := NewElector(l, "other", locker.Permits(2, 1))
		time.Sleep(10 * again)
		if err := bad.IsLeader(t.Context()); !errors.Is(err, locker.ErrInvalidOption) {
			t.Errorf("option that cannot be: %v", err)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
		<-e.done
		if err := e.IsLeader(t.Context()); err == nil {
			t.Error("leads without a Locker")
		}
		for _, e := range []*Elector{e, bad} {
			if err := e.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

// Two replicas whose locks are files: no two runs overlap.
func TestFile(t *testing.T) {
	replica.NoOverlap(t, 20, func(l locker.Locker, run func()) {
		task, once := Job(l, "job", 0, func(context.Context, *locker.Lock) error { run(); return nil })
		start(t, 10*time.Millisecond, task, []gocron.JobOption{once})
	})
}

// All of this is so with the newest release of gocron, too.
func TestNewest(t *testing.T) { replica.Newest(t) }

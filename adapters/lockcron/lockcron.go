// Package lockcron lets several replicas share the jobs of robfig/cron: of each run one replica does the work and the
// others skip it.
//
//	jobs := lockcron.New(l, 30*time.Second, cron.DefaultLogger)
//	_, err := c.AddJob("0 3 * * *", jobs.Job(ctx, "report", func(ctx context.Context, lock *locker.Lock) error {
//		return report(ctx)
//	}))
//
// A job that does not use a context can stay as it is and be wrapped, alone or in a chain:
//
//	_, err := c.AddJob("0 3 * * *", cron.NewChain(cron.Recover(logger), jobs.Wrapper("report")).Then(job))
//
// # How long a name stays taken
//
// The replicas run a job when their clocks say so. A job that is over quickly would be run again by a replica whose
// clock is a little behind: the lock is free again by then. So the name stays taken for atLeast, counted from the
// beginning of the run. Choose it longer than the clocks can be apart and shorter than the time between two runs. For
// "@every 1h", which counts from the start of each replica, that is most of the hour.
//
// # What it cannot do
//
// A replica that dies during a run frees the name when its TTL is over; the run is not made up for, here as anywhere
// else where it is skipped. To be run at most once a job has to note what it has done, where its results are.
package lockcron

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/seed80cd6120/locker"
)

// answer is how long a run waits for the server of the locks before it is skipped.
const answer = 5 * time.Second

// Jobs makes jobs that replicas share.
type Jobs struct {
	l       locker.Locker
	atLeast time.Duration
	log     cron.Logger
}

// New returns what makes jobs with locks of l. Their names stay taken for atLeast from the beginning of a run, also if that is
// over sooner; 0 means no longer than the run. Runs that are skipped because the name is taken are reported to log.Info, all
// errors to log.Error.
func New(l locker.Locker, atLeast time.Duration, log cron.Logger) *Jobs {
	return &Jobs{l, atLeast, log}
}

// Job returns a job that runs fn while it holds name, and is skipped if the name is taken. The context of fn ends
// when ctx does and when the lock is lost.
func (j *Jobs) Job(ctx context.Context, name string, fn func(ctx context.Context, lock *locker.Lock) error, opts ...locker.AcquireOption) cron.Job {
	if j.atLeast != 0 {
		opts = append(slices.Clip(opts), locker.AtLeast(j.atLeast))
	}
	return cron.FuncJob(func() {
		lock, err := j.try(ctx, name, opts)
		switch {
		case errors.Is(err, locker.ErrNotAcquired):
			j.log.Info("skip: the lock is taken", "lock", name)
			return
		case err != nil:
			j.log.Error(err, "skip", "lock", name)
			return
		}
		// When the program shuts down ctx has ended; the name is to be free all the same.
		defer func() {
			if err := lock.Release(context.WithoutCancel(ctx)); err != nil {
				j.log.Error(err, "release", "lock", name)
			}
		}()
		within, cancel := context.WithCancel(ctx)
		defer cancel()
		if err := fn(lock.Within(within), lock); err != nil {
			j.log.Error(err, "run", "lock", name)
		}
	})
}

func (j *Jobs) try(ctx context.Context, name string, opts []locker.AcquireOption) (*locker.Lock, error) {
	ctx, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	return j.l.TryAcquire(ctx, name, opts...)
}

// Wrapper returns a wrapper that runs a job while it holds name, and skips it if the name is taken. The job does not learn
// of the loss of the lock, which is reported to log.Error when the job is over. Every job needs a name, and so a
// wrapper, of its own.
func (j *Jobs) Wrapper(name string, opts ...locker.AcquireOption) cron.JobWrapper {
	return func(job cron.Job) cron.Job {
		return j.Job(context.Background(), name, func(context.Context, *locker.Lock) error { job.Run(); return nil }, opts...)
	}
}

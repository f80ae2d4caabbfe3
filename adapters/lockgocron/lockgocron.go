// Package lockgocron lets several replicas share the jobs of gocron: of each run one replica does the work and the
// others skip it.
//
//	task, once := lockgocron.Job(l, "report", 50*time.Minute, func(ctx context.Context, lock *locker.Lock) error {
//		return report(ctx)
//	})
//	_, err = scheduler.NewJob(gocron.DurationJob(time.Hour), task, once)
//
// There are three ways, which are not to be mixed in one scheduler:
//
//   - [Job] takes a lock for each run of one job. The context of the task ends when the lock is lost.
//   - [NewLocker] does so for all jobs of a scheduler, by their names. gocron hands the lock to no task, so that a task
//     does not learn of its loss.
//   - [NewElector] has one replica run all jobs until it ends or is cut off.
//
// # How long a name stays taken
//
// A job that is over quickly would be run again by the next replica, whose clock is a little behind or whose interval
// began at another time: the lock is free again by then. So the name stays taken for atLeast, counted from the
// beginning of the run. Choose it longer than the replicas can be apart and shorter than the interval, so that the next
// run finds the name free: nine tenths of the interval do for every schedule.
//
// # What it cannot do
//
// A replica that dies during a run frees the name when its TTL is over, and the next replica whose time comes runs the
// job, also within the interval. With an elector a job may run twice in the interval in which the leader
// changes. A run that is skipped is not made up for. To be run at most once a job has to note what it has done, where
// its results are.
package lockgocron

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/seed80cd6120/locker"
)

// answer is how long a run waits for the server of the locks before it is skipped.
const answer = 5 * time.Second

// ErrNoLock is returned by a task of Job that gocron has run without taking its lock: the option that
// Job returned was not given to NewJob, or the scheduler has an elector.
var ErrNoLock = errors.New("lockgocron: the task was run without its lock")

// NewLocker returns a Locker for gocron.WithDistributedLocker, which takes the name of a job for each of its runs. The
// name stays taken for atLeast from the beginning of the run, also if that is over sooner; 0 means no longer than the run.
// A run whose name is taken is skipped.
func NewLocker(l locker.Locker, atLeast time.Duration, opts ...locker.AcquireOption) gocron.Locker {
	return &jobLocker{l, options(atLeast, opts)}
}

type jobLocker struct {
	l    locker.Locker
	opts []locker.AcquireOption
}

// Lock takes the name key for a run of the job of that name.
func (j *jobLocker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	lock, err := try(ctx, j.l, key, j.opts)
	if err != nil {
		return nil, err
	}
	return held{lock}, nil
}

// held is a lock as gocron knows it.
type held struct{ lock *locker.Lock }

// Unlock releases the lock, also if ctx has ended, as it has when the scheduler shuts down.
func (h held) Unlock(ctx context.Context) error { return h.lock.Release(context.WithoutCancel(ctx)) }

// Job returns a task that runs fn, and the option for NewJob that has gocron take name for each run of it. The name
// stays taken for atLeast from the beginning of the run, also if that is over sooner; 0 means no longer than the run.
// A run whose name is taken is skipped, and with Shared or Permits also one that comes while another run of the same replica
// has taken the name and not yet begun.
//
// The context of fn ends when the job is removed or its scheduler shut down, and when the lock is lost. After a
// loss the task fails with locker.ErrLost beside the error of fn. Each call of Job is for one job.
func Job(l locker.Locker, name string, atLeast time.Duration, fn func(ctx context.Context, lock *locker.Lock) error, opts ...locker.AcquireOption) (gocron.Task, gocron.JobOption) {
	o := &once{l: l, name: name, opts: options(atLeast, opts)}
	task := gocron.NewTask(func(ctx context.Context) error {
		lock := o.take()
		if lock == nil {
			return ErrNoLock
		}
		return run(ctx, lock, fn)
	})
	return task, gocron.WithDistributedJobLocker(o)
}

// once passes the lock of each run from gocron to the task.
type once struct {
	l    locker.Locker
	name string
	opts []locker.AcquireOption

	locking sync.Mutex                  // by Lock
	next    atomic.Pointer[locker.Lock] // of the run that is about to begin
}

// errBegins is why a run is skipped whose task could not tell its lock from that of another.
var errBegins = fmt.Errorf("%w: another run of the job is about to begin", locker.ErrNotAcquired)

// Lock takes the name of the job for one run.
func (o *once) Lock(ctx context.Context, _ string) (gocron.Lock, error) {
	if !o.locking.TryLock() {
		return nil, errBegins
	}
	defer o.locking.Unlock()
	if next := o.next.Load(); next != nil && next.Context().Err() == nil {
		return nil, errBegins
	}
	lock, err := try(ctx, o.l, o.name, o.opts)
	if err != nil {
		return nil, err
	}
	o.next.Store(lock)
	return held{lock}, nil
}

// take returns the lock of the run that begins. It returns each lock to one run only.
func (o *once) take() *locker.Lock { return o.next.Swap(nil) }

func options(atLeast time.Duration, opts []locker.AcquireOption) []locker.AcquireOption {
	if atLeast != 0 {
		opts = append(slices.Clip(opts), locker.AtLeast(atLeast))
	}
	return opts
}

func try(ctx context.Context, l locker.Locker, name string, opts []locker.AcquireOption) (*locker.Lock, error) {
	ctx, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	return l.TryAcquire(ctx, name, opts...)
}

// run runs fn under a context that ends when ctx or lock does.
func run(ctx context.Context, lock *locker.Lock, fn func(ctx context.Context, lock *locker.Lock) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err := fn(lock.Within(ctx), lock)
	if cause := context.Cause(lock.Context()); errors.Is(cause, locker.ErrLost) && !errors.Is(err, locker.ErrLost) {
		err = errors.Join(err, cause)
	}
	return err
}

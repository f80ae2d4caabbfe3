package lockgocron

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/seed80cd6120/locker"
)

// ErrNotLeader is what IsLeader returns while another replica leads.
var ErrNotLeader = errors.New("lockgocron: another replica leads")

// again is the pause after a campaign that has failed.
const again = time.Second

// Elector campaigns for a name, for gocron.WithDistributedElector: the replica that holds the name runs the jobs.
type Elector struct {
	l    locker.Locker
	name string
	opts []locker.AcquireOption

	stop context.CancelFunc
	done chan struct{} // closed when nothing is held and nothing campaigns

	mu   sync.Mutex
	lead *locker.Lock // nil while another replica leads
	err  error        // why the last campaign failed
}

// NewElector begins to campaign for name, until Close.
func NewElector(l locker.Locker, name string, opts ...locker.AcquireOption) *Elector {
	ctx, stop := context.WithCancel(context.Background())
	e := &Elector{l: l, name: name, opts: opts, stop: stop, done: make(chan struct{}), err: ErrNotLeader}
	go func() {
		defer close(e.done)
		e.campaign(ctx)
	}()
	return e
}

func (e *Elector) campaign(ctx context.Context) {
	for {
		err := locker.Lead(ctx, e.l, e.name, func(ctx context.Context, lock *locker.Lock) error {
			e.set(lock, nil)
			<-ctx.Done()
			e.set(nil, ErrNotLeader)
			_ = lock.Release(context.WithoutCancel(ctx)) // the name is free when Close returns
			return ctx.Err()
		}, e.opts...)
		e.set(nil, err)
		if errors.Is(err, locker.ErrClosed) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(again):
		}
	}
}

func (e *Elector) set(lead *locker.Lock, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lead, e.err = lead, err
}

// leading returns the lock by which this replica leads, or why it does not.
func (e *Elector) leading() (*locker.Lock, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lead == nil {
		return nil, e.err
	}
	if e.lead.Context().Err() != nil {
		return nil, context.Cause(e.lead.Context())
	}
	return e.lead, nil
}

// IsLeader returns nil if this replica leads now, by the clock, and else why not: ErrNotLeader, or what campaigning
// failed with.
func (e *Elector) IsLeader(context.Context) error {
	_, err := e.leading()
	return err
}

// Task returns a task that runs fn. The context of fn ends when the job is removed or its scheduler shut down, and when
// this replica leads no more; then the task fails with locker.ErrLost beside the error of fn.
func (e *Elector) Task(fn func(ctx context.Context, lock *locker.Lock) error) gocron.Task {
	return gocron.NewTask(func(ctx context.Context) error {
		lock, err := e.leading()
		if err != nil {
			return err
		}
		return run(ctx, lock, fn)
	})
}

// Close ends the campaign and gives up the lead. Shut the scheduler down before. It returns ctx's error if that
// ends first; the campaign ends all the same.
func (e *Elector) Close(ctx context.Context) error {
	e.stop()
	select {
	case <-e.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

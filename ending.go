package locker

import (
	"context"
	"sync"
	"time"
)

// ending is the end of something that any number of callers may wait for. Most ends are
// there before anybody does, so that the channel is made for those who really wait.
type ending struct {
	mu   sync.Mutex
	over bool
	err  error
	done chan struct{}
}

// finish says that it is over, and how it ended.
func (e *ending) finish(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over, e.err = true, err
	if e.done != nil {
		close(e.done)
	}
}

// waited returns a channel that is closed when it is over.
func (e *ending) waited() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.done == nil {
		e.done = make(chan struct{})
		if e.over {
			close(e.done)
		}
	}
	return e.done
}

// result returns how it ended, if it is over.
func (e *ending) result() (err error, over bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err, e.over
}

// wait returns how it ended, or soon after ctx ctx's error.
func (e *ending) wait(ctx context.Context) error {
	if err, over := e.result(); over {
		return err
	}
	select {
	case <-e.waited():
	case <-ctx.Done():
		patience := time.NewTimer(grace)
		defer patience.Stop()
		select {
		case <-e.waited():
		case <-patience.C:
			return ended(ctx, nil)
		}
	}
	return e.err
}

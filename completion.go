package locker

import (
	"context"
	"sync"
	"time"
)

// completion is the end of something that any number of callers may wait for. Mostly it is
// there before anybody does, so that the channel is made for those who really wait.
type completion struct {
	mu   sync.Mutex
	over bool
	err  error // how it ended or, as long as it has not, what went wrong last
	done chan struct{}
}

// tried notes what went wrong so far.
func (e *completion) tried(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.err = err
}

// finish says that it is over, and how it ended.
func (e *completion) finish(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over, e.err = true, err
	if e.done != nil {
		close(e.done)
	}
}

// waited returns a channel that is closed when it is over.
func (e *completion) waited() <-chan struct{} {
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

// result returns how it ended, if it is over, or else what went wrong last.
func (e *completion) result() (err error, over bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err, e.over
}

// wait returns how it ended, or soon after ctx ctx's error with what went wrong last.
func (e *completion) wait(ctx context.Context) error {
	err, over := e.result()
	if over {
		return err
	}
	if ctx.Err() != nil && err != nil {
		return ended(ctx, err) // it was asked until ctx ended
	}
	select {
	case <-e.waited():
	case <-ctx.Done():
		patience := time.NewTimer(grace)
		defer patience.Stop()
		select {
		case <-e.waited():
		case <-patience.C:
		}
	}
	if err, over = e.result(); !over {
		err = ended(ctx, err)
	}
	return err
}

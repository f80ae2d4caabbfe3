package locker

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/seed80cd6120/locker/driver"
)

// line is a driver with one name, whose server keeps a queue. A release takes
// another along if the one that it is given to waits in this driver.
type line struct {
	script
	token int64

	// before, if not nil, is called before a Relay does anything, amid when next is in the queue,
	// which is yet to be said, after when it is done.
	before, amid, after func(c, next *driver.Claim) error
	refuse              bool // nothing is ever taken along

	mu       sync.Mutex
	queue    []*driver.Claim // the first holds the name
	joins    int             // requests to join
	relayed  int             // joined with a release
	granted  map[*driver.Claim]chan struct{}
	finished []*driver.Claim // released or abandoned
}

func newLine() *line {
	l := &line{granted: make(map[*driver.Claim]chan struct{})}
	l.traits.Prompt, l.silent = true, true
	l.acquire, l.release, l.abandon = l.take, l.free, l.drop
	return l
}

// openLine opens a Locker with a line for its driver.
func openLine(t *testing.T) (*core, *line) {
	t.Helper()
	s := newLine()
	c := open(t, &s.script).(*core)
	c.relayer = s
	return c, s
}

// join puts c at the end of the queue, unless it is there.
func (l *line) join(c *driver.Claim) chan struct{} {
	if granted, ok := l.granted[c]; ok {
		return granted
	}
	l.granted[c] = make(chan struct{})
	l.queue = append(l.queue, c)
	if len(l.queue) == 1 {
		close(l.granted[c])
	}
	return l.granted[c]
}

// leave takes c out and gives the name to the next.
func (l *line) leave(c *driver.Claim) (held bool) {
	i := slices.Index(l.queue, c)
	if i < 0 {
		return false
	}
	l.queue = slices.Delete(l.queue, i, i+1)
	delete(l.granted, c)
	l.finished = append(l.finished, c)
	if i == 0 && len(l.queue) > 0 {
		close(l.granted[l.queue[0]])
	}
	return i == 0
}

func (l *line) take(ctx context.Context, c *driver.Claim) (driver.Grant, error) {
	l.mu.Lock()
	if _, there := l.granted[c]; !there {
		l.joins++
	}
	granted := l.join(c)
	l.mu.Unlock()
	select {
	case <-granted:
		l.mu.Lock()
		defer l.mu.Unlock()
		l.token++
		return driver.Grant{Token: l.token, Until: TimeClock{}.Now().Add(c.TTL)}, nil
	case <-ctx.Done():
		return driver.Grant{}, ctx.Err()
	}
}

func (l *line) free(_ context.Context, c *driver.Claim) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.leave(c) {
		return driver.ErrGone
	}
	return nil
}

func (l *line) drop(_ context.Context, c *driver.Claim) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leave(c)
	return nil
}

// Relay makes line a driver.Relayer.
func (l *line) Relay(ctx context.Context, c, next *driver.Claim, joined func()) error {
	if l.before != nil {
		if err := l.before(c, next); err != nil {
			joined()
			return err
		}
	}
	l.mu.Lock()
	if !slices.Contains(l.queue, c) {
		l.mu.Unlock()
		return driver.ErrGone
	}
	there := len(l.queue) > 1 && !l.refuse
	if there {
		l.relayed++
		l.join(next)
		l.mu.Unlock()
		if l.amid != nil {
			_ = l.amid(c, next)
		}
		joined()
		l.mu.Lock()
	}
	l.leave(c)
	l.mu.Unlock()
	if l.after != nil {
		return l.after(c, next)
	}
	return nil
}

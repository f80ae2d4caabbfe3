package experiment

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed80cd6120/locker/benchmarks/contender"
)

// queue is those who wait for a lock. A waiter that gets it says so
// on turns and holds it until it is told to go on, or the queue is left.
type queue struct {
	ctx   context.Context
	end   context.CancelFunc
	held  contender.Held // by the first, if lineUp made the queue
	turns chan turn
	wg    sync.WaitGroup
	drain chan struct{} // closed: nobody holds any longer than it must
}

// turn is one waiter that holds the lock.
type turn struct {
	waiter int
	at     time.Time
	held   contender.Held
	done   chan struct{} // close it once held has been released
	err    error
}

// newQueue makes an empty queue for up to n, who wait for as long as ctx allows.
func newQueue(ctx context.Context, n int) *queue {
	q := &queue{turns: make(chan turn, n), drain: make(chan struct{})}
	q.ctx, q.end = context.WithCancel(ctx)
	return q
}

// lineUp has one client hold a name and the others wait for it, who come so far apart.
// It returns when all wait.
func (c *Cell) lineUp(ctx context.Context, first contender.Client, others []contender.Client, apart time.Duration) (*queue, error) {
	name := c.LockName()
	held, err := first.Acquire(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("first holder: %w", err)
	}
	q := newQueue(ctx, len(others))
	q.held = held
	for i, client := range others {
		q.join(client, name, i)
		if apart > 0 {
			err = contender.Pause(ctx, apart)
		}
	}
	if err == nil {
		err = c.settle(ctx, len(others))
	}
	if err != nil {
		q.leave()
		return nil, err
	}
	return q, nil
}

// leave sends everybody away and waits until they are gone.
func (q *queue) leave() {
	q.end()
	q.wg.Wait()
}

// join has a client wait for name as number i.
func (q *queue) join(client contender.Client, name string, i int) {
	q.wg.Go(func() {
		held, err := client.Acquire(q.ctx, name)
		t := turn{waiter: i, at: time.Now(), held: held, err: err, done: make(chan struct{})}
		if err == nil {
			select {
			case <-q.drain: // nobody wants to hold: go on before telling
				t.err = t.release(q.ctx)
			default:
			}
		}
		q.turns <- t
		if t.err == nil {
			select {
			case <-t.done:
			case <-q.ctx.Done():
			}
		}
	})
}

// hurry makes everybody who gets the lock from now on release it by itself.
func (q *queue) hurry() { close(q.drain) }

// next waits for somebody to get the lock.
func (q *queue) next(ctx context.Context) (turn, error) {
	select {
	case t := <-q.turns:
		if t.err != nil {
			return t, fmt.Errorf("waiter %d: %w", t.waiter, t.err)
		}
		return t, nil
	case <-ctx.Done():
		return turn{}, fmt.Errorf("nobody got the lock: %w", context.Cause(ctx))
	}
}

// errStuck is returned when nobody gets a lock that nobody holds.
var errStuck = errors.New("the lock is free and waiters are stuck")

// patience is how long a free lock may find no taker before the waiters count as stuck.
const patience = 3 * time.Second

// soon is next for a lock that is free: it waits no longer than patience.
func (q *queue) soon(ctx context.Context) (turn, error) {
	for look := 1; ; look++ {
		within, cancel := context.WithTimeoutCause(ctx, patience/looks, errStuck)
		t, err := q.next(within)
		cancel()
		if look == looks || !errors.Is(err, errStuck) {
			return t, err
		}
	}
}

// release gives back what a waiter held and lets it go.
func (t turn) release(ctx context.Context) error {
	defer close(t.done)
	return t.held.Release(ctx)
}

// settle waits until n waiters can be taken to wait at the server. What happens inside
// a library cannot be seen, so this is a time; where the server can be asked what it
// has to do without adding to it, also until that is little.
func (c *Cell) settle(ctx context.Context, n int) error {
	if err := contender.Pause(ctx, 300*time.Millisecond+time.Duration(n)*2*time.Millisecond); err != nil {
		return err
	}
	if s := c.Contender.Setup.Service; s != contender.ZooKeeper && s != contender.Etcd {
		return nil
	}
	const look = 100 * time.Millisecond
	// Sessions are kept alive meanwhile, three times within their time, of which servers
	// may grant less than was asked for. More than that are some who still join.
	every := min(c.TTL(), 10*time.Second) / 3
	alive := int64(n) * int64(look) / int64(every)
	quiet := 0 // looks in a row: a machine that stands still is quiet, too, for a while
	for looks := 0; looks < 50 && quiet < 3; looks++ {
		requests, err := c.Site.Requests(ctx, func() error { return contender.Pause(ctx, look) })
		if err != nil {
			return err
		}
		if quiet++; requests > 10+2*alive {
			quiet = 0
		}
	}
	return nil
}

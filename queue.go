package locker

import (
	"context"

	"github.com/seed80cd6120/locker/driver"
)

// queue is the line of goroutines of this Locker that want one name. The one in
// front is at the server; the others wait here, so that a process costs the
// server one waiter however many goroutines it has.
type queue struct {
	waiting []*turn
	early   int // so many have gone to the server for one who has yet to leave
}

// turn is the place of a goroutine in the line.
type turn struct {
	ctx  context.Context
	a    acquisition
	come chan struct{} // closed when it is there
	lock *Lock         // what a release has brought to the server for it, or nil

	// Under core.mu.
	taken bool // a release has it along just now, see relay
	due   bool // meanwhile somebody has left
	gone  bool // meanwhile it was given up
}

// join returns when it is the caller's turn to go to the server for name, with a lock
// for which it has been there already, or nil. After a nil error the caller has to leave.
func (c *core) join(ctx context.Context, name string, a acquisition) (*Lock, error) {
	c.mu.Lock()
	q, others := c.queues[name]
	if !others {
		c.queues[name] = nil
		c.mu.Unlock()
		return nil, nil
	}
	if q == nil {
		q = &queue{}
		c.queues[name] = q
	}
	t := &turn{ctx: ctx, a: a, come: make(chan struct{})}
	q.waiting = append(q.waiting, t)
	c.mu.Unlock()

	var err error
	select {
	case <-t.come:
		return t.lock, nil
	case <-ctx.Done():
		err = ended(ctx, nil)
	case <-c.open.Done():
		err = ErrClosed
	}
	if !c.giveUp(name, t) { // it came at the same moment
		if t.lock != nil {
			c.undo(&t.lock.claim)
		}
		c.leave(name)
	}
	return nil, err
}

// giveUp takes t out of the line; false means that it has come.
func (c *core) giveUp(name string, t *turn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queues[name]
	if q == nil {
		return false
	}
	for i, other := range q.waiting {
		if other != t {
			continue
		}
		if t.taken {
			t.gone = true // whoever has it along takes it out
		} else {
			q.waiting = append(q.waiting[:i], q.waiting[i+1:]...)
		}
		return true
	}
	return false
}

// leave passes the turn to the next in line.
func (c *core) leave(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leaveLocked(name)
}

func (c *core) leaveLocked(name string) {
	q := c.queues[name]
	switch {
	case q != nil && q.early > 0:
		q.early--
	case q == nil || len(q.waiting) == 0:
		delete(c.queues, name)
	case q.waiting[0].taken:
		q.waiting[0].due = true
	default:
		close(q.pop().come)
	}
}

func (q *queue) pop() *turn {
	t := q.waiting[0]
	q.waiting[0] = nil
	q.waiting = q.waiting[1:]
	return t
}

// relay releases a claim and takes the first in line along to the server, if there is
// one and the driver can do that. If the name thereby goes to the one who is there
// for this Locker, the next has its turn at once, and without a request of its own.
func (c *core) relay(ctx context.Context, claim *driver.Claim) error {
	t := c.take(claim.Name)
	if t == nil {
		return c.driver.Release(ctx, claim)
	}
	lock := newLock(t.ctx, c, c.newClaim(claim.Name, t.a, true))
	joined := false
	err := c.relayer.Relay(ctx, claim, &lock.claim, func() {
		joined = true
		if c.bring(t, claim.Name, lock) {
			c.undo(&lock.claim)
		}
	})
	if !joined {
		c.bring(t, claim.Name, nil)
	}
	return err
}

// take returns the first in line, who may be taken along now, or nil.
func (c *core) take(name string) *turn {
	if c.relayer == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queues[name]
	if q == nil || len(q.waiting) == 0 || q.waiting[0].taken {
		return nil
	}
	q.waiting[0].taken = true
	return q.waiting[0]
}

// bring ends a taking along. lock is what is at the server now for t, if anything.
// It reports whether t was given up meanwhile.
func (c *core) bring(t *turn, name string, lock *Lock) (gone bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queues[name]
	t.taken = false
	switch {
	case t.gone:
		q.pop()
		if t.due {
			c.leaveLocked(name)
		}
	case lock != nil || t.due:
		q.pop()
		if !t.due {
			q.early++
		}
		t.lock = lock
		close(t.come)
	}
	return t.gone
}

package locker

import "context"

// queue is the line of goroutines of this Locker that want one name. The one in
// front is at the server; the others wait here, so that a process costs the
// server one waiter however many goroutines it has.
type queue struct {
	waiting []chan struct{}
}

// join returns when it is the caller's turn to go to the server for name. After
// a nil error the caller has to leave.
func (c *core) join(ctx context.Context, name string) error {
	c.mu.Lock()
	q, others := c.queues[name]
	if !others {
		c.queues[name] = nil
		c.mu.Unlock()
		return nil
	}
	if q == nil {
		q = &queue{}
		c.queues[name] = q
	}
	turn := make(chan struct{})
	q.waiting = append(q.waiting, turn)
	c.mu.Unlock()

	var err error
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
		err = ended(ctx, nil)
	case <-c.open.Done():
		err = ErrClosed
	}
	if !c.giveUp(name, turn) {
		c.leave(name) // the turn came at the same moment
	}
	return err
}

// giveUp takes turn out of the line; false means that it is no longer there.
func (c *core) giveUp(name string, turn chan struct{}) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queues[name]
	if q == nil {
		return false
	}
	for i, t := range q.waiting {
		if t == turn {
			q.waiting = append(q.waiting[:i], q.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// leave passes the turn to the next in line.
func (c *core) leave(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queues[name]
	if q == nil || len(q.waiting) == 0 {
		delete(c.queues, name)
		return
	}
	close(q.waiting[0])
	q.waiting[0] = nil
	q.waiting = q.waiting[1:]
}

package redlock

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker/internal/underway"
)

const (
	// maxBatch is how many requests go out in one write at most.
	maxBatch = 128
	// lenience is how many bounds a node may be silent before nothing more is sent.
	lenience = 3
	// sluggish is how long an answer may take before the node is asked last.
	sluggish = 10 * time.Millisecond
	// maxQueue bounds what waits for a node that does not answer.
	maxQueue = 1 << 14
)

var (
	errHung    = errors.New("does not answer: an earlier request is still waiting, this one was not sent")
	errSlow    = errors.New("no answer in time")
	errNotSent = errors.New("not sent in time")
	errUnasked = errors.New("not asked: decided without it")
	errFull    = errors.New("too many requests wait for this node")
	errClosed  = errors.New("closed before it could be sent")
)

func (b *backend) newNode(client goredis.UniversalClient, i int) *node {
	n := &node{name: nameOf(client, i), client: client, ctx: b.ctx, bound: b.bound, linger: linger, later: &b.later, open: &b.open}
	n.late, n.unasked, n.unsent = n.fail(errSlow), n.fail(errUnasked), n.fail(errNotSent)
	return n
}

// node is one of the servers. Requests to it go out in the order in which they
// were made and one batch at a time: what gathers while a batch is under way goes
// out together in the next. That is what makes a lagging node cheap, keeps calls
// from piling up at one that hangs, and makes sure that what undoes a request
// never overtakes it.
type node struct {
	name   string
	client goredis.UniversalClient
	ctx    context.Context // ends with the backend
	bound  time.Duration   // longer without an answer and the node counts as hung
	linger time.Duration
	later  *alarm
	late   error // what is said of it when an answer does not come in time

	unasked error // and when it was decided without it
	unsent  error // and when a question was taken back

	open  *underway.Group // requests at all nodes that are not answered
	calls sync.WaitGroup  // its goroutine

	mu      sync.Mutex
	queue   []*request
	full    int        // so long, and it is worth looking for what has been taken back
	parked  []*request // failed and to be repeated
	wake    chan struct{}
	running bool // the goroutine is at it
	ended   bool
	failed  time.Time // when the last request failed; zero if it did not
	since   time.Time // when the batch under way was sent
	closed  bool      // nothing is repeated any more
	retry   time.Duration
}

// submit sends r as soon as the node's turn has come. A request that is not to be
// repeated is refused at once when the node hangs.
func (n *node) submit(r *request) {
	if n.accept(r, time.Time{}) {
		n.start()
		n.mu.Unlock()
	}
}

// linger is how long a request may wait for company, or for being taken back. Until then
// a lock is on a majority and no more: others may take the rest, and it stays so for as long
// as it is held. With 5 ms that happened to one in four that ten others wait for; a
// client alone would be quicker by a twentieth.
const linger = time.Millisecond

// submitLater sends r together with whatever goes to the node next, or after a
// while. It is for what nobody waits for: a client that releases a lock often asks for
// one right after, and one that takes a lock often has released it by then.
func (n *node) submitLater(r *request) {
	if !n.accept(r, time.Now().Add(n.linger)) {
		return
	}
	if !n.running {
		n.later.set(r.due)
	}
	n.mu.Unlock()
}

// accept puts r into the queue, and then leaves mu locked, or answers it.
func (n *node) accept(r *request, due time.Time) bool {
	n.open.Begin()
	n.mu.Lock()
	r.due = due
	var err error
	switch {
	case n.ended:
		err = errClosed
	case r.until.IsZero() && n.silent() > lenience*n.bound:
		err = errHung
	case len(n.queue) >= maxQueue:
		err = errFull
	default:
		if n.queue = append(n.queue, r); len(n.queue) > n.full {
			n.prune()
		}
		return true
	}
	n.mu.Unlock()
	if r.state.CompareAndSwap(queued, sent) {
		n.answer(r, nil, n.fail(err), false)
	} else {
		n.open.End()
	}
	return false
}

// rouse sends what has waited long enough, and what came after it. If there is only what
// has not, it returns when it will have.
func (n *node) rouse(now time.Time) (next time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.running {
		return next
	}
	n.prune()
	switch {
	case len(n.queue) == 0:
	case n.due(now) == 0:
		next = n.queue[0].due
	default:
		n.start()
	}
	return next
}

// hurry sends r, which lingers.
func (n *node) hurry(r *request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r.due = time.Time{}
	n.start()
}

// prune forgets the requests that have been taken back. It wants mu.
func (n *node) prune() {
	n.queue = slices.DeleteFunc(n.queue, func(r *request) bool {
		gone := r.state.Load() == cancelled
		if gone {
			n.open.End()
		}
		return gone
	})
	n.full = max(2*len(n.queue), 64)
}

// weak: the node hangs, or the last that it was sent has just failed.
func (n *node) weak() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.failedLocked() || n.hungLocked()
}

// slow: the others should be asked first. It does not take that long to answer.
func (n *node) slow() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.failedLocked() || n.silent() > sluggish
}

func (n *node) failedLocked() bool { return !n.failed.IsZero() && time.Since(n.failed) < time.Second }

func (n *node) hung() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.hungLocked()
}

func (n *node) hungLocked() bool { return n.silent() > n.bound }

// silent is for how long an answer has been waited for. It wants mu.
func (n *node) silent() time.Duration {
	if !n.running || n.since.IsZero() {
		return 0
	}
	return time.Since(n.since)
}

// busy says whether a batch is under way.
func (n *node) busy() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.running
}

// start sends what waits, if nobody is at it. It wants mu.
func (n *node) start() {
	if n.running || n.ended || len(n.queue) == 0 {
		return
	}
	n.running = true
	if n.wake == nil {
		n.wake = make(chan struct{}, 1)
		n.calls.Add(1)
		go n.run()
	}
	n.wake <- struct{}{} // there is room: nobody is at it
}

// end ends the goroutine, after the last request has been answered.
func (n *node) end() {
	n.mu.Lock()
	n.ended = true
	if n.wake != nil {
		close(n.wake)
	}
	n.mu.Unlock()
	n.calls.Wait()
}

package locker

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

const (
	// lookInterval is the longest time between two comparisons of the clock with the
	// next deadline. Timers do not run while the machine sleeps.
	lookInterval = time.Second
	// minLookInterval is the shortest time between two looks, however close the deadlines
	// are. It is less than what margin takes off them.
	minLookInterval = time.Millisecond
	// maxRenewals is how many calls of Renew may run at the same time, should they hang. As long as one goes on
	// reporting claims no other begins: several at once would only make a slow server slower. The last is for the claims
	// that the server has answered for since the one before began: where others hang, it does not.
	maxRenewals = 4
)

// renewer renews all leases of one Locker and ends those whose time is over, from one
// goroutine. A timer for each lease would cost every lock more than its share of that.
type renewer struct {
	core     *core
	interval time.Duration // between renewals when all is well
	retry    time.Duration // after one that failed
	running  sync.Once
	wake     chan struct{}

	mu        sync.Mutex
	held      map[*driver.Claim]*lease
	deadlines deadlines
	closed    bool
	idle      bool           // nothing was held at the last look: no timer runs
	last      driver.Instant // when to renew was last
	began     driver.Instant // when the last call of Renew began
	answered  driver.Instant // when the server last said how it stands with a claim
	next      driver.Instant // when to renew
	look      driver.Instant // when the goroutine looks again
	inFlight  int
}

func newRenewer(c *core) *renewer {
	r := &renewer{
		core:     c,
		interval: c.cfg.TTL / 3,
		wake:     make(chan struct{}, 1),
		held:     make(map[*driver.Claim]*lease),
	}
	if c.traits.Check > 0 {
		r.interval = min(r.interval, c.traits.Check)
	}
	r.retry = max(r.interval/4, 10*time.Millisecond)
	return r
}

// start begins the goroutine at the first acquisition, so that a Locker that is
// not used has none.
func (r *renewer) start() {
	r.running.Do(func() {
		r.core.more()
		r.last = r.core.clock.Now()
		r.answered = r.last
		r.next = r.last.Add(r.interval)
		go r.run()
	})
}

// add adds a lease that was granted; false means that the Locker is closing.
func (r *renewer) add(le *lease, now driver.Instant) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.held[&le.claim] = le
	le.answered = now
	le.due = le.until()
	heap.Push(&r.deadlines, le)
	if r.idle {
		r.idle = false
		r.next = now.Add(r.interval)
	}
	if le.renewable() && le.until().Sub(now) < r.core.cfg.TTL/2 {
		// To take it has taken long. What is left may not last until the others' turn.
		r.next = min(r.next, max(now, r.last.Add(r.retry)))
	}
	if min(le.due, r.next) < r.look {
		r.wakeUp()
	}
	return true
}

// reschedule looks at the deadline of le, which has become shorter, in time.
func (r *renewer) reschedule(le *lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if le.slot >= 0 {
		le.due = le.until()
		heap.Fix(&r.deadlines, le.slot)
		r.wakeUp()
	}
}

// wakeUp has the goroutine look at once.
func (r *renewer) wakeUp() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// remove takes a lease out that has ended.
func (r *renewer) remove(le *lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.held, &le.claim)
	if le.slot >= 0 {
		heap.Remove(&r.deadlines, le.slot)
	}
	if r.closed && len(r.held) == 0 {
		r.wakeUp()
	}
}

func (r *renewer) run() {
	defer r.core.done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-r.wake:
		}
		d, ok := r.check()
		if !ok {
			return
		}
		if d > 0 {
			timer.Reset(d)
		}
	}
}

// check ends the leases whose time is over, renews the others when it is time, and returns
// when to do so again; 0 means when one is added. When the Locker is closing they are not
// renewed, and not ok means that there is nothing left to do.
func (r *renewer) check() (again time.Duration, ok bool) {
	now := r.core.clock.Now()
	session := r.core.traits.Session
	r.mu.Lock()
	defer r.mu.Unlock()
	r.look = r.expire(now)
	switch {
	case r.closed:
		return max(r.look.Sub(now), minLookInterval), len(r.held) > 0
	case len(r.held) == 0 && !session && now >= r.next:
		r.idle = true // after an interval, lest a Locker that is busy wakes it for each lease
		r.look = math.MaxInt64
		return 0, true
	case now >= r.next && r.inFlight > 0 && now < r.answered.Add(r.interval):
		r.next = r.answered.Add(r.interval)
	case now >= r.next:
		r.last, r.next = now, now.Add(r.interval)
		claims := r.renewable()
		if (len(claims) > 0 || session) && r.inFlight < maxRenewals {
			r.began = now
			r.inFlight++
			r.core.more()
			go r.renew(claims)
		}
	}
	r.look = min(r.look, r.next)
	return max(r.look.Sub(now), minLookInterval), true
}

// expire ends the leases whose deadline is over and returns when to look again. A lease is
// looked at when the deadline is over that it had when it was looked at last; those
// that were renewed meanwhile get their new place. r.mu is held.
func (r *renewer) expire(now driver.Instant) driver.Instant {
	for len(r.deadlines) > 0 {
		le := r.deadlines[0]
		if le.due > now {
			return min(le.due, now.Add(lookInterval))
		}
		le.due = le.until()
		if le.due <= now {
			go le.look() // what follows from one loss does not delay the next
			le.due = now.Add(lookInterval)
		}
		heap.Fix(&r.deadlines, 0)
	}
	return now.Add(lookInterval)
}

// renewable returns the claims that the next call is to renew or confirm, those with the least time left first: they would be
// lost first where the servers do not get through with all. r.mu is held.
func (r *renewer) renewable() []*driver.Claim {
	leases := make([]*lease, 0, len(r.held))
	for _, le := range r.held {
		if (le.renewable() || r.core.traits.Check > 0) && (r.inFlight < maxRenewals-1 || le.answered >= r.began) {
			leases = append(leases, le)
		}
	}
	slices.SortFunc(leases, func(a, b *lease) int { return cmp.Compare(a.until(), b.until()) })
	claims := make([]*driver.Claim, len(leases))
	for i, le := range leases {
		claims[i] = &le.claim
	}
	return claims
}

// renew makes one call of the driver's Renew. It runs aside, so that one that
// hangs keeps nobody from learning that a lock is lost.
func (r *renewer) renew(claims []*driver.Claim) {
	c := r.core
	defer c.done()
	ctx, cancel := context.WithTimeout(c.open, c.cfg.TTL/3)
	defer cancel()
	sent := c.clock.Now()
	unknown := len(claims)
	margin := time.Duration(math.MaxInt64)
	err := safely(func() error {
		c.driver.Renew(ctx, claims, func(claim *driver.Claim, until driver.Instant, err error) {
			known, left := r.report(claim, until, sent, err)
			if known {
				unknown--
			}
			if left > 0 {
				margin = min(margin, left)
			}
		})
		return nil
	})
	if err != nil {
		c.cfg.Logger.Error("locker: renewal", "backend", c.traits.Backend, "error", err)
	}
	if o := c.cfg.Observer; o != nil && o.Renewed != nil {
		if margin == math.MaxInt64 {
			margin = 0
		}
		o.Renewed(Renewal{c.traits.Backend, len(claims), unknown, c.clock.Now().Sub(sent), margin})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inFlight--
	next := r.last.Add(r.interval)
	if unknown > 0 {
		next = min(next, c.clock.Now().Add(r.retry))
	}
	if next < r.next {
		r.next = next
		r.wakeUp()
	}
}

// report takes in what the server said of one claim. It reports whether that is known now, and, if the claim
// was renewed, how much time it had left.
func (r *renewer) report(claim *driver.Claim, until, sent driver.Instant, err error) (known bool, left time.Duration) {
	r.mu.Lock()
	le := r.held[claim]
	if err == nil || errors.Is(err, driver.ErrGone) {
		r.answered = r.core.clock.Now()
		if le != nil {
			le.answered = r.answered
		}
	}
	r.mu.Unlock()
	switch {
	case le == nil:
	case err == nil:
		if le.renewable() {
			left = le.until().Sub(r.core.clock.Now())
		}
		le.extend(until, sent)
	case errors.Is(err, driver.ErrGone):
		le.lose(err)
	default:
		le.unconfirmed(err)
		r.core.cfg.Logger.Debug("locker: renewal failed", "backend", r.core.traits.Backend, "name", claim.Name, "error", err)
		return false, 0
	}
	return true, left
}

// close takes no more leases and returns those held. They are looked after until they have
// been removed.
func (r *renewer) close() []*lease {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.wakeUp()
	return slices.Clone(r.deadlines)
}

// deadlines is a heap of leases by when to look at their deadline.
type deadlines []*lease

func (d deadlines) Len() int           { return len(d) }
func (d deadlines) Less(i, j int) bool { return d[i].due < d[j].due }
func (d deadlines) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].slot, d[j].slot = i, j
}

func (d *deadlines) Push(x any) {
	le := x.(*lease)
	le.slot = len(*d)
	*d = append(*d, le)
}

func (d *deadlines) Pop() any {
	last := len(*d) - 1
	le := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	le.slot = -1
	return le
}

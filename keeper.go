package locker

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

const (
	// glance is the longest time between two comparisons of the clock with the
	// deadlines of the locks held. Timers do not run while the machine sleeps.
	glance = time.Second
	// pace is the shortest time between two looks, however close the deadlines are. It
	// is less than what margin takes off them.
	pace = time.Millisecond
	// renewals is how many calls of Renew may hang at the same time.
	renewals = 4
)

// keeper renews all locks of one Locker and ends those whose time is over, from one
// goroutine. A timer for each lock would cost every lock more than its share of that.
type keeper struct {
	core     *core
	interval time.Duration // between renewals when all is well
	retry    time.Duration // after one that failed
	running  sync.Once
	wake     chan struct{}

	mu       sync.Mutex
	held     map[*driver.Claim]*Lock
	closed   bool
	parked   bool           // nothing was held at the last look: no timer runs
	last     driver.Instant // when to renew was last
	next     driver.Instant // when to renew
	look     driver.Instant // when to look at the locks again
	inFlight int
}

func newKeeper(c *core) *keeper {
	k := &keeper{
		core:     c,
		interval: c.cfg.TTL / 3,
		wake:     make(chan struct{}, 1),
		held:     make(map[*driver.Claim]*Lock),
	}
	if check := c.traits.Check; check > 0 {
		k.interval = min(k.interval, check)
	}
	k.retry = max(k.interval/4, 10*time.Millisecond)
	return k
}

// start starts the goroutine at the first acquisition, so that a Locker that is
// not used has none.
func (k *keeper) start() {
	k.running.Do(func() {
		k.core.more()
		k.last = k.core.clock.Now()
		k.next = k.last.Add(k.interval)
		go k.run()
	})
}

// add takes a lock that has until then into care; false means that the Locker is closing.
func (k *keeper) add(l *Lock, until driver.Instant) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return false
	}
	k.held[&l.claim] = l
	now := k.core.clock.Now()
	next, look := k.next, k.look
	if k.parked {
		k.parked = false
		next, look = now.Add(k.interval), math.MaxInt64
	}
	if !l.claim.Lease && until.Sub(now) < k.core.cfg.TTL/2 {
		// To take it has taken long. What is left may not last until the others' turn.
		next = min(next, max(now, k.last.Add(k.retry)))
	}
	k.next = next
	if min(until, next) < look {
		k.rouse()
	}
	return true
}

func (k *keeper) rouse() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

func (k *keeper) remove(l *Lock) {
	k.mu.Lock()
	delete(k.held, &l.claim)
	if k.closed && len(k.held) == 0 {
		k.rouse()
	}
	k.mu.Unlock()
}

func (k *keeper) run() {
	defer k.core.done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-k.wake:
		}
		d, ok := k.tend()
		if !ok {
			return
		}
		if d > 0 {
			timer.Reset(d)
		}
	}
}

// tend looks after the locks held and returns when to do it again; 0 means when one is
// added. When the Locker is closing they are not renewed, and not ok means that there is
// nothing left to do.
func (k *keeper) tend() (again time.Duration, ok bool) {
	locks := k.all()
	now := k.core.clock.Now()
	first := now.Add(glance)
	renewable := make([]*driver.Claim, 0, len(locks))
	for _, l := range locks {
		switch held, due := l.due(); {
		case !held:
		case due <= now:
			go l.look() // what follows from one loss does not delay the next
		default:
			first = min(first, due)
			if l.renewable() {
				renewable = append(renewable, &l.claim)
			}
		}
	}
	session := k.core.traits.Session
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.closed:
		k.look = first
		return max(k.look.Sub(now), pace), len(k.held) > 0
	case len(k.held) == 0 && !session && now >= k.next:
		k.parked = true // after an interval, lest a Locker that is busy wakes it for each lock
		return 0, true
	case now >= k.next:
		k.last, k.next = now, now.Add(k.interval)
		if (len(renewable) > 0 || session) && k.inFlight < renewals {
			k.inFlight++
			k.core.more()
			go k.renew(renewable)
		}
	}
	k.look = min(k.next, first)
	return max(k.look.Sub(now), pace), true
}

// renew makes one call of the driver's Renew. It runs aside, so that one that
// hangs keeps nobody from learning that a lock is lost.
func (k *keeper) renew(claims []*driver.Claim) {
	c := k.core
	defer c.done()
	ctx, cancel := context.WithTimeout(c.open, c.cfg.TTL/3)
	defer cancel()
	missing := len(claims)
	c.driver.Renew(ctx, claims, func(claim *driver.Claim, until driver.Instant, err error) {
		k.mu.Lock()
		l := k.held[claim]
		k.mu.Unlock()
		switch {
		case l == nil:
			missing--
		case err == nil:
			missing--
			l.extend(until)
		case errors.Is(err, driver.ErrGone):
			missing--
			l.lose(err)
		default:
			l.hinder(err)
			c.cfg.Logger.Debug("locker: renewal failed", "backend", c.traits.Backend, "name", claim.Name, "error", err)
		}
	})
	k.mu.Lock()
	defer k.mu.Unlock()
	k.inFlight--
	if soon := c.clock.Now().Add(k.retry); missing > 0 && soon < k.next {
		k.next = soon
		k.rouse()
	}
}

// all returns the locks held now. Until somebody has looked at them it is not known when
// to do so again.
func (k *keeper) all() []*Lock {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.look = math.MaxInt64
	locks := make([]*Lock, 0, len(k.held))
	for _, l := range k.held {
		locks = append(locks, l)
	}
	return locks
}

// close takes no more locks and returns those held. They are looked after until they have
// been removed.
func (k *keeper) close() []*Lock {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	k.rouse()
	return k.all()
}

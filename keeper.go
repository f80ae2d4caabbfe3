package locker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

const (
	// glance is the longest time between two comparisons of the clock with the
	// deadlines of the locks held. Timers do not run while the machine sleeps.
	glance = time.Second
	// renewals is how many calls of Renew may hang at the same time.
	renewals = 4
)

// keeper renews all locks of one Locker, from one goroutine.
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
	next     driver.Instant // when to renew
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
		k.next = k.core.clock.Now().Add(k.interval)
		go k.run()
	})
}

// add takes a lock into care; false means that the Locker is closing.
func (k *keeper) add(l *Lock) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return false
	}
	k.held[&l.claim] = l
	if k.parked {
		k.parked = false
		k.next = k.core.clock.Now().Add(k.interval)
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
		case <-k.core.open.Done():
			return
		}
		if d := k.tend(); d > 0 {
			timer.Reset(d)
		}
	}
}

// tend looks after the locks held and returns when to do it again; 0 means when
// one is added.
func (k *keeper) tend() time.Duration {
	locks := k.all()
	renewable := make([]*driver.Claim, 0, len(locks))
	for _, l := range locks {
		if l.look() && l.renewable() {
			renewable = append(renewable, &l.claim)
		}
	}
	session := k.core.traits.Session
	now := k.core.clock.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.held) == 0 && !session && now >= k.next {
		k.parked = true // after an interval, lest a Locker that is busy wakes it for each lock
		return 0
	}
	if now >= k.next {
		k.next = now.Add(k.interval)
		if (len(renewable) > 0 || session) && k.inFlight < renewals {
			k.inFlight++
			k.core.more()
			go k.renew(renewable)
		}
	}
	return min(k.next.Sub(now), glance)
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

// all returns the locks held now.
func (k *keeper) all() []*Lock {
	k.mu.Lock()
	defer k.mu.Unlock()
	locks := make([]*Lock, 0, len(k.held))
	for _, l := range k.held {
		locks = append(locks, l)
	}
	return locks
}

// close takes no more locks and returns those held.
func (k *keeper) close() []*Lock {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	return k.all()
}

package locker

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// lease is one claim at the server, from its request to its end. Mostly it has one
// Lock. Several goroutines have a Lock each on one lease together when they re-entered it
// or share it, and one after the other when it is handed over. A loss is that of the
// lease and ends them all.
//
// From its grant to the end of its release, or of the cleanup after its loss, a
// lease counts as under way, so that Close waits for it.
type lease struct {
	core    *core
	claim   driver.Claim
	atLeast time.Duration
	passes  bool // it may be handed over, until window
	window  driver.Instant
	granted driver.Instant // when the core heard of it
	first   Lock
	freed   completion // of the release

	deadline atomic.Int64 // an Instant, margin taken off; the server keeps it until then
	slot     int          // in renewer.deadlines
	due      driver.Instant
	answered driver.Instant // when the server last said how it stands with it, or granted it

	mu        sync.Mutex
	state     leaseState
	locks     []*Lock // those that have not ended
	one       [1]*Lock
	weight    int32          // of the claim, as it is now
	token     int64          // the last that was given to a Lock
	lastToken int64          // the last that may be
	end       driver.Instant // the deadline is not extended beyond; 0 if there is no such moment
	confirmed driver.Instant // when the request was sent that the deadline comes from
	failed    error          // of the last renewal, nil if it was confirmed
	wanted    chan struct{}  // nil as long as nobody asked for it
	isWanted  bool

	lightening chan struct{} // closed when the driver's Lighten has returned; nil if none runs
}

type leaseState int

const (
	asking  leaseState = iota // not granted yet
	held                      // granted, and as far as the clock tells still ours
	lost                      // maybe another's
	ending                    // its last Lock was released
	dropped                   // never given to anybody
)

// newLease makes the lease of a claim that is to be asked for.
func newLease(ctx context.Context, c *core, name string, a acquisition, wait bool) *lease {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails: the program would have ended
	var text [2 * len(id)]byte
	hex.Encode(text[:], id[:])
	le := &lease{core: c, atLeast: a.atLeast, weight: a.weight, slot: -1}
	le.first = Lock{lease: le, caller: ctx}
	le.claim = driver.Claim{
		Name: name, ID: string(text[:]), Owner: a.owner,
		Weight: a.weight, Limit: a.limit, Spare: c.spare(a),
		TTL: c.cfg.TTL, Wait: wait,
		Lost: le.lose, Wanted: le.want,
	}
	if a.lease > 0 {
		le.claim.TTL, le.claim.Lease = a.lease, true
	}
	return le
}

// hold makes the granted claim a held lease with its first Lock; false if it was lost
// before, or if the Locker is closing.
func (le *lease) hold(g driver.Grant) bool {
	c := le.core
	now := c.clock.Now()
	le.mu.Lock()
	defer le.mu.Unlock()
	if le.claim.Lease && c.traits.LeaseBySession {
		le.end = now.Add(le.claim.TTL)
	}
	deadline := le.limit(g.Until, now)
	if le.state != asking || deadline <= now {
		return false
	}
	le.deadline.Store(int64(deadline))
	if !c.renewer.add(le, now) {
		return false
	}
	c.more()
	le.state, le.granted, le.confirmed = held, now, now
	le.token, le.lastToken = g.Token, g.Token+g.Spare
	if le.claim.Spare > 0 && (g.Spare > 0 || !c.traits.Fenced) {
		le.passes, le.window = true, now.Add(c.cfg.HandOver)
	}
	le.first.token = g.Token
	le.one[0] = &le.first
	le.locks = le.one[:]
	return true
}

// drop ends a lease that has not been granted.
func (le *lease) drop() {
	le.mu.Lock()
	defer le.mu.Unlock()
	if le.state == asking {
		le.state = dropped
	}
}

// extend moves the deadline after a renewal that was sent at that moment; it never
// brings a lost lease back.
func (le *lease) extend(until, sent driver.Instant) {
	now := le.core.clock.Now()
	le.mu.Lock()
	defer le.mu.Unlock()
	le.failed = nil
	if le.state != held || now >= le.until() || sent < le.confirmed || !le.renewable() {
		return
	}
	le.confirmed = sent
	deadline := le.limit(until, now)
	shorter := deadline < le.until()
	le.deadline.Store(int64(deadline))
	if shorter {
		le.core.renewer.reschedule(le)
	}
}

// unconfirmed records why a renewal failed. If no other succeeds it is why the lease is lost.
func (le *lease) unconfirmed(err error) {
	le.mu.Lock()
	defer le.mu.Unlock()
	le.failed = err
}

// until returns the deadline.
func (le *lease) until() driver.Instant { return driver.Instant(le.deadline.Load()) }

// limit returns the deadline of a lease that the server keeps until then. It is not more
// than a TTL away, whatever the server says, but for a session that lasts longer.
func (le *lease) limit(until, now driver.Instant) driver.Instant {
	ttl := le.claim.TTL
	if le.end != 0 {
		ttl = le.core.cfg.TTL // the margin is the session's
	}
	if !le.core.traits.Session {
		until = min(until, now.Add(ttl))
	}
	deadline := until.Add(-margin(ttl))
	if le.end != 0 {
		deadline = min(deadline, le.end)
	}
	return deadline
}

// margin is taken off every deadline because two clocks never run at quite the same
// rate, and because a timer fires a little after its time: two parts in a hundred for a short
// TTL; for a long one a second and five in ten thousand, the rate by which NTP bends a clock
// at most.
func margin(ttl time.Duration) time.Duration {
	return min(ttl/50+5*time.Millisecond, ttl/10, time.Second+ttl/2000)
}

// renewable reports whether the lease is to be extended while it is held.
func (le *lease) renewable() bool {
	return !le.claim.Lease || le.core.traits.LeaseBySession
}

// look compares the clock with the deadline and reports whether the lease is still held.
func (le *lease) look() bool {
	le.mu.Lock()
	is := le.state == held
	overdue := is && le.core.clock.Now() >= le.until()
	why := ErrOverdue
	if overdue && le.failed != nil {
		// As text: that a renewal ran out of time must not look as if the caller had.
		why = fmt.Errorf("%w: %v", ErrOverdue, le.failed)
	}
	le.mu.Unlock()
	if overdue {
		le.lose(why)
		return false
	}
	return is
}

// isHeld reports whether the lease is held, as far as was known at the last look.
func (le *lease) isHeld() bool {
	le.mu.Lock()
	defer le.mu.Unlock()
	return le.state == held
}

// lose ends the lease and all its Locks because another may have the name, or soon will. It
// does not block: what follows is done in the background.
func (le *lease) lose(reason error) {
	le.drop()
	le.mu.Lock()
	was, locks := le.state, le.locks
	if was == held {
		le.state, le.locks = lost, nil
		cause := fmt.Errorf("%w: %w", ErrLost, reason)
		for _, l := range locks {
			l.become(cause)
		}
	}
	le.mu.Unlock()
	if was != held {
		return
	}
	go func() {
		c := le.core
		defer c.done()
		c.renewer.remove(le)
		le.awaitLighten()
		c.cleanup(le)
		c.closeWindow(le)
		c.cfg.Logger.Warn("locker: lock lost", "backend", c.traits.Backend, "name", le.claim.Name, "token", le.token, "reason", reason)
		if o := c.cfg.Observer; o != nil && o.Lost != nil {
			for _, l := range locks {
				o.Lost(l, reason)
			}
		}
	}()
}

// remove takes l, which has ended with cause, and those that re-entered it, out of the
// lease; le.mu is held. It reports whether none is left.
func (le *lease) remove(l *Lock, cause error) (last bool) {
	le.locks = slices.DeleteFunc(le.locks, func(other *Lock) bool {
		gone := other == l || other.outer == l
		if gone {
			other.become(cause)
		}
		return gone
	})
	return len(le.locks) == 0
}

// want records that somebody else waits for the name.
func (le *lease) want() {
	le.mu.Lock()
	defer le.mu.Unlock()
	if !le.isWanted && le.wanted != nil {
		close(le.wanted)
	}
	le.isWanted = true
}

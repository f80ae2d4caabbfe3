package etcd

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/seed80cd6120/locker/driver"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// entry is what a claim has, or may have, on the server: one key in the queue of
// its name.
//
// The key is named after the Locker and a number that is the lowest not in use, not
// after the claim: etcd remembers the name of a deleted key until its history is
// compacted, which many never have done, and a look at the queue would have to
// step over all those names. The claim's ID is in the value.
type entry struct {
	claim *driver.Claim
	queue string // what all keys of the name begin with
	key   string

	// Written by Relay and Acquire before the entry counts as held, and by Release and
	// Abandon.
	sown    bool               // the key is, was, or may come to be on the server
	joined  place              // where a release has brought it to, see Relay; zero once that is used
	follows bool               // it joined the queue behind another of this Locker
	expects string             // whom it expected ahead of it; see habit
	marked  bool               // its key may be; see habit
	session *session           // whose lease the key was put under
	doubts  []*session         // under which a put may still be on its way
	leases  []clientv3.LeaseID // of its own, for Claim.Lease
	deleted bool               // by Release, which still has a lease to revoke
	spoilt  bool               // a deletion that does not compare may still be on its way

	rev   atomic.Int64                    // the key's create revision; 0: not known to exist
	first atomic.Pointer[mvccpb.KeyValue] // its key, as a deletion found it at the head of the queue
	head  chan struct{}                   // gets a value when first is set

	// over is closed when nothing more of the entry is on the server.
	over chan struct{}

	// Under backend.mu.
	held      bool
	since     driver.Instant
	guard     *tap
	guardFrom int64         // what the next watch need not tell of
	blind     bool          // the watch was cut off: read first
	arrives   chan struct{} // closed once it has a place in the queue, or has failed to get one
	next      *entry        // stands directly behind it, if that is known
	nextRev   int64         // the create revision with which it does
}

// newEntry makes the entry of c known, so that a release can tell it that its
// turn has come.
func (b *backend) newEntry(c *driver.Claim) *entry {
	e := &entry{
		claim: c,
		queue: b.queueOf(c.Name),
		head:  make(chan struct{}, 1),
		over:  make(chan struct{}),
	}
	c.State = e
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queued[e.queue]++
	b.placeLocked(e)
	if !c.Lease { // whose key is written once more, which is no mark
		e.expects = b.expectedLocked(e.queue)
	}
	return e
}

func (b *backend) placeLocked(e *entry) {
	for n := 0; ; n++ {
		e.key = b.ownIn(e.queue) + strconv.Itoa(n)
		if _, taken := b.entries[e.key]; !taken {
			b.entries[e.key] = e
			return
		}
	}
}

// ownIn returns what the keys of this Locker in a queue begin with.
func (b *backend) ownIn(queue string) string { return queue + b.id + "." }

// move gives e another key: somebody else has put something under the one it had.
func (b *backend) move(e *entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.entries[e.key] = nil
	b.placeLocked(e)
}

// value begins with whom the entry expects ahead of it, if anybody; see habit.
func (e *entry) value() string { return e.expects + " " + e.claim.ID + " " + e.claim.Owner }

func (e *entry) wrote(value []byte) bool { return string(value) == e.value() }

// own returns the entry of a claim that Acquire was called for.
func own(c *driver.Claim) *entry {
	e, _ := c.State.(*entry)
	return e
}

// forget ends an entry of which nothing is left on the server.
func (b *backend) forget(e *entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forgetLocked(e)
}

func (b *backend) forgetLocked(e *entry) {
	if b.entries[e.key] != e {
		return
	}
	if e.spoilt {
		b.entries[e.key] = nil
	} else {
		delete(b.entries, e.key)
	}
	if b.queued[e.queue]--; b.queued[e.queue] == 0 {
		delete(b.queued, e.queue)
	}
	e.held = false
	e.next = nil
	if e.guard != nil {
		e.guard.close()
		e.guard = nil
	}
	close(e.over)
}

// alone reports whether this Locker has nothing else to do with the name of e.
func (b *backend) alone(e *entry) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.queued[e.queue] <= 1
}

// hold marks e as granted, and from then on the guard looks after it.
func (b *backend) hold(e *entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.entries[e.key] == e {
		e.held = true
		e.since = b.clock.Now()
	}
}

// lose tells the core that the holding of e is gone.
func (b *backend) lose(e *entry, reason error) {
	b.mu.Lock()
	was := e.held
	e.held = false
	if was && !e.claim.Lease {
		// Nothing is left, and the core need not have it cleaned up.
		reason = fmt.Errorf("%w: %w", driver.ErrGone, reason)
		b.forgetLocked(e)
	}
	b.mu.Unlock()
	if was && e.claim.Lost != nil {
		e.claim.Lost(reason)
	}
}

// isPut takes note of the answer to a transaction that puts the key under s.
func (e *entry) isPut(s *session, resp *clientv3.TxnResponse) {
	if resp.Succeeded {
		e.sown, e.session, e.marked = true, s, false
		e.rev.Store(resp.Header.Revision)
	}
}

// notPut takes note of an error of such a transaction.
func (e *entry) notPut(s *session, err error) error {
	if !answered(err) && !slices.Contains(e.doubts, s) {
		e.doubts = append(e.doubts, s)
	}
	// For want of space it may have been refused only after it was done.
	e.sown = e.sown || !answered(err) || errors.Is(err, rpctypes.ErrNoSpace)
	return fmt.Errorf("put: %w", err)
}

// settle forgets a doubt.
func (e *entry) settle(s *session) {
	e.doubts = slices.DeleteFunc(e.doubts, func(d *session) bool { return d == s })
}

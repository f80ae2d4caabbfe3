package redlock

import (
	"math/bits"
	"strconv"
	"sync"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// buckets is how many clocks and queues' hash tags there are. The clocks never
// expire, so this bounds what stays on a server for ever.
const buckets = 1024

// The value stored under a lock's key, and in the queue, is
//
//	1763721350123456.0123456789abcdef0123456789abcdef.0123456789abcdef.00015000 host:4711
//	when it began    the claim's ID                   whom to wake     its TTL  its owner
//
// all of fixed width but the last, so that scripts can take it apart, and in the
// order of arrival when sorted. The first two fields are its head: no two claims
// have the same, so comparing heads compares values. The TTL comes after a comma if the
// claim's first bid is plain; see expectsFree.
const (
	headLen  = 49
	idStart  = 17
	idEnd    = 49
	fixedLen = 75 // all but the owner
)

// claim is what the driver knows of one driver.Claim.
type claim struct {
	*driver.Claim
	bucket                  int
	lock, clock, wait, gone string // keys
	value, head, ttl        string
	plain                   bool           // its first bid is plain
	began                   driver.Instant // before the first request of it was made

	mail chan struct{} // something below has changed; wakes the waiting Acquire

	mu      sync.Mutex
	open    []int8  // bids at each node that are not answered, and the like
	touched nodeSet // nodes that may have carried out a request
	unclear nodeSet // of these, those where one may still be on its way
	stands  nodeSet // nodes that may have put us in their queue
	token   int64   // of our holding
	cleanup *cleanup
	bid     *round // the last question for the lock

	// What the waiting Acquire has to know. Its last bid is the base.
	ours      nodeSet     // nodes that said yes to it
	late      nodeSet     // nodes that said yes when the votes had been counted
	handed    nodeSet     // nodes that have handed the lock over to us since
	handToken int64       // with that token
	written   nodeSet     // as far as these have written it
	yielded   nodeSet     // nodes whose votes were given back: what these say may be old
	look      bool        // it is worth asking all nodes again
	stirred   nodeSet     // nodes that have begun to listen to us
	missing   *time.Timer // when not to wait any longer for the other nodes that hand over
}

func (b *backend) newClaim(dc *driver.Claim, stamp int64) *claim {
	c := b.named(dc)
	v := make([]byte, 0, 80+len(dc.Owner))
	v = appendPadded(v, stamp, 16)
	v = append(append(v, '.'), dc.ID...)
	v = append(append(v, '.'), b.channel...)
	comma := byte('.')
	if c.plain = b.expectsFree(); c.plain {
		comma = ','
	}
	v = appendPadded(append(v, comma), dc.TTL.Milliseconds(), 8)
	c.value = string(append(append(v, ' '), dc.Owner...))
	c.head = c.value[:headLen]
	if dc.Wait {
		c.mail = make(chan struct{}, 1)
	}
	dc.State = c
	return c
}

// reclaim makes up a claim from the fixed part of its value.
func (b *backend) reclaim(fixed, name string) *claim {
	c := b.named(&driver.Claim{Name: name, ID: fixed[idStart:idEnd]})
	c.value, c.head = fixed, fixed[:headLen]
	return c
}

func (b *backend) named(dc *driver.Claim) *claim {
	bucket := bucketOf(dc.Name)
	tag := b.prefix + ":{" + bucketText(bucket) + "}:"
	return &claim{
		Claim:  dc,
		bucket: bucket,
		lock:   tag + "lock:" + dc.Name,
		clock:  tag + "clock",
		wait:   tag + "wait:" + dc.Name,
		gone:   tag + "gone:" + dc.ID,
		ttl:    strconv.FormatInt(dc.TTL.Milliseconds(), 10),
		open:   make([]int8, len(b.nodes)),
		began:  b.clock.Now(),
	}
}

// bidFor is the call that asks for the lock, with the token that is to be written ("" for
// none).
func (c *claim) bidFor(token string, queue bool) []any {
	keys := []string{c.lock, c.gone, c.wait, c.clock}
	argv := []string{c.value, c.ttl, token, "1"}
	if queue {
		argv = argv[:3]
	}
	if token == "" {
		keys = keys[:3]
		if queue {
			argv = argv[:2]
		}
	}
	return bidScript.call(keys, argv...)
}

// plainBid is the call that takes the lock if it is free, and does nothing else.
func (c *claim) plainBid() []any {
	return []any{"set", c.lock, c.value, "px", c.ttl, "nx"}
}

// appendPadded appends x in width digits.
func appendPadded(v []byte, x int64, width int) []byte {
	from := len(v)
	for range width {
		v = append(v, '0')
	}
	for i := len(v) - 1; i >= from; i-- {
		v[i] = byte('0' + x%10)
		x /= 10
	}
	return v
}

// bucketOf hashes a name. Every program that takes the same locks has to come to
// the same result, so the function may never change.
func bucketOf(name string) int {
	h := uint64(14695981039346656037) // FNV-1a
	for i := 0; i < len(name); i++ {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	h ^= h >> 32
	return int(h % buckets)
}

func bucketText(bucket int) string {
	const hex = "0123456789abcdef"
	return string([]byte{hex[bucket>>8], hex[bucket>>4&15], hex[bucket&15]})
}

// asking notes that a request is about to be given to node i.
func (c *claim) asking(i int) {
	c.mu.Lock()
	c.open[i]++
	c.mu.Unlock()
}

// bids notes r as the last bid, or that there will be none. What has not gone out of
// the one before is not worth it any more.
func (c *claim) bids(r *round) {
	c.mu.Lock()
	before := c.bid
	c.bid = r
	c.mu.Unlock()
	if before != nil {
		before.withdraw()
	}
}

// asked notes what came of it. queue: it was a bid that queues where the lock is taken.
func (c *claim) asked(i int, rep reply, queue bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[i]--
	switch {
	case rep.err != nil && !rep.sent:
		return
	case rep.err != nil:
		c.unclear = c.unclear.with(i)
	case !rep.yes && !queue:
		return
	case !rep.yes:
		c.stands = c.stands.with(i)
	}
	c.touched = c.touched.with(i)
}

// stateAt: the claim may be in the queue of node i, or will be when what goes out
// before has been carried out; and a request of it may still be on its way there.
func (c *claim) stateAt(i int) (stands, unclear bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stands.has(i) || c.unclear.has(i) || c.open[i] > 0, c.unclear.has(i)
}

// wake notes what change does and rouses the waiting Acquire.
func (c *claim) wake(change func()) {
	c.mu.Lock()
	change()
	c.mu.Unlock()
	c.rouse()
}

func (c *claim) rouse() {
	select {
	case c.mail <- struct{}{}:
	default:
	}
}

// traces is where something of the claim may be.
func (c *claim) traces() nodeSet {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.touched
	for i, n := range c.open {
		if n > 0 {
			s = s.with(i)
		}
	}
	return s
}

// channelOf is the part of a value that says whom to wake.
func channelOf(value string) string { return value[50:66] }

// nodeSet is a set of indices of nodes.
type nodeSet uint64

const maxNodes = 64

func allNodes(n int) nodeSet            { return ^nodeSet(0) >> (maxNodes - n) }
func (s nodeSet) with(i int) nodeSet    { return s | 1<<i }
func (s nodeSet) without(i int) nodeSet { return s &^ (1 << i) }
func (s nodeSet) has(i int) bool        { return s&(1<<i) != 0 }
func (s nodeSet) len() int              { return bits.OnesCount64(uint64(s)) }

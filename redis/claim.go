package redis

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// ticket is what the driver keeps of a claim.
type ticket struct {
	*bucket
	claim *driver.Claim
	// The same for every request: key of the lock, claim, owner, time to live.
	lock, id, owner, ttl any // texts

	// stray is the server time until which a request of unknown outcome may still
	// have an effect, 0 if there is none. Set by Acquire only.
	stray int64
	// touched is set when the server may know of the claim.
	touched bool
	// before is set when the claim may be in the queue.
	before bool
	// drift is set when a request had no answer that joins a queue and does not look whether
	// the claim was given up.
	drift bool
	// soon is set when the name came from its queue after a moment.
	soon bool
	// aside is set when the name came from a claim of this Locker, as that of the next may.
	aside bool
	// unsure is set when a request to release has got no answer.
	unsure bool
	// Of a claim that a release has brought to the server: as what it waits, and what
	// the server said; see Relay. Acquire takes them.
	waiter   *waiter
	standing answer
	kept     driver.Instant // when its queue was prolonged by such a release
}

func (b *backend) ticket(c *driver.Claim) *ticket {
	bucket := b.layout.of(c.Name)
	t := &ticket{
		bucket: bucket,
		claim:  c,
		lock:   bucket.lockArg(c.Name),
		id:     c.ID,
		owner:  b.owner,
		ttl:    b.ttl,
	}
	if c.Owner != b.cfg.Owner {
		t.owner = c.Owner
	}
	if c.TTL != b.cfg.TTL {
		t.ttl = millis(c.TTL)
	}
	c.State = t
	return t
}

func millis(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Millisecond-1)/time.Millisecond), 10)
}

// queue is the key of the name's queue.
func (t *ticket) queue() any { return t.queueArg(t.claim.Name) }

// awaited is the claim as it holds the name once others wait for that.
func (t *ticket) awaited() string { return t.claim.ID + "+" }

// entry is what stands in the queue for the claim.
func (t *ticket) entry() string {
	return t.channel + " " + t.ttl.(string) + " " + t.claim.ID + "+ " + t.owner.(string)
}

// strayArg is stray as the scripts want it.
func (t *ticket) strayArg() string {
	if t.stray == 0 {
		return ""
	}
	return strconv.FormatInt(t.stray, 10)
}

// drifts says to the scripts whether a request may still come that looks at nothing.
func (t *ticket) drifts() string {
	if t.drift {
		return "drifts"
	}
	return ""
}

// answer is what the server said to a request to acquire.
type answer struct {
	sent  driver.Instant
	token int64 // if greater than 0 the claim is granted

	// Otherwise, if queued, it waits.
	queued bool
	now    int64 // the server's time, 0 if it did not say
	left   time.Duration
	ahead  int64 // how many wait before it
	heard  bool
}

// The ways to ask.
const (
	dontWait = iota
	wait
	waitAndProbe
)

// watched is for how long it may be that somebody waits for a name of a bucket, after
// the server said so. It does for somewhat longer.
const watched = time.Minute

func (b *backend) watch(bucket *bucket) { bucket.looks.Store(int64(b.clock.Now().Add(watched))) }

func (b *backend) watches(bucket *bucket) bool {
	looks := bucket.looks.Load()
	return looks > 0 && int64(b.clock.Now()) < looks
}

// ask sends one request to acquire. An answer that is neither a token nor queued
// means that the name is taken.
func (b *backend) ask(ctx context.Context, t *ticket, how int) (answer, error) {
	const tries = 5
	for try := 1; ; try++ {
		a, again, err := b.askOnce(ctx, t, how)
		if !again && !isSlow(err) {
			return a, err
		}
		if try == tries && err == nil {
			err = fmt.Errorf("the request came late %d times: the server's time moves", tries)
		}
		if try == tries {
			return a, err
		}
	}
}

func (b *backend) askOnce(ctx context.Context, t *ticket, how int) (a answer, again bool, err error) {
	a.sent = b.clock.Now()
	latest, floor := b.times.latest(a.sent), b.seen.Load()
	if how == wait && !t.before && t.stray == 0 && t.moves(t.claim.Name, a.sent) {
		return b.joinOnce(ctx, t, a, latest+stragglers.Microseconds())
	}
	words := make(args, 0, 14)
	if how == dontWait && t.stray == 0 && !b.watches(t.bucket) {
		words = append(words, nil, nil, two, t.lock, t.clockArg)
		words = append(words, t.id, t.owner, t.ttl, latest)
	} else {
		words = append(words, nil, nil, four, t.lock, t.clockArg, t.queue(), t.gone(t.claim.ID))
		words = append(words, t.id, t.owner, t.ttl, latest, floor)
		switch {
		case how == dontWait:
			words = append(words, "", "")
		case how == waitAndProbe:
			words = append(words, t.channelArg, "probe")
		case t.before:
			words = append(words, t.channelArg, "again")
		default:
			words = append(words, t.channelArg, "")
		}
	}
	reply, err := b.exchange(ctx, b.scripts.acquire, t, words)
	if err != nil {
		t.unanswered(err, how, latest)
		return a, false, err
	}
	switch v := reply.(type) {
	case string:
		if _, ok := b.queued(t, &a, v); ok {
			return a, false, nil
		}
		if a.token, err = strconv.ParseInt(v, 10, 64); err == nil {
			t.touched = true
			if a.token <= floor { // from a server that has lost its clock: it is to give a higher one
				b.watch(t.bucket)
				return a, true, nil
			}
			b.see(a.token)
			return a, false, nil
		}
	case int64:
		switch v {
		case -1:
			err = fmt.Errorf("claim %s has been given up", t.claim.ID)
		case -2:
			b.watch(t.bucket)
			return a, true, nil
		}
		return a, false, err
	case []any:
		n, ok := numbers(v)
		if ok && len(n) == 1 {
			b.times.learn(n[0], a.sent)
			return a, true, nil
		}
	}
	return a, false, fmt.Errorf("the server answered %v to the script", reply)
}

// joinOnce is askOnce for a queue that moves. stray is until when the request may arrive, if
// there is no answer.
func (b *backend) joinOnce(ctx context.Context, t *ticket, a answer, stray int64) (_ answer, again bool, err error) {
	reply, err := b.exchange(ctx, command{}, t, t.joinArgs())
	if err != nil {
		t.unanswered(err, wait, stray)
		t.drift = t.stray > 0
		return a, false, err
	}
	length, _ := reply.(int64)
	if length == 0 { // nobody waits any more, and nothing was done
		t.moving.Store(nil)
		return a, true, nil
	}
	b.waits(t, &a)
	a.ahead = length - 1
	return a, false, nil
}

func (t *ticket) joinArgs() args { return args{rpushx, t.queue(), t.entry()} }

// unanswered takes note of a request that failed.
func (t *ticket) unanswered(err error, how int, latest int64) {
	if !refused(err) {
		t.stray = max(t.stray, latest)
		t.before = t.before || how != dontWait
	}
	t.touched = t.touched || !refused(err) || halfway(err)
}

// queued reads the answer of a server that made the claim wait, if text begins with one.
func (b *backend) queued(t *ticket, a *answer, text string) (rest string, ok bool) {
	var n [5]int64 // the time, the holder's milliseconds, the place, how many heard, the last token
	for i := range n {
		number, rest, more := strings.Cut(text, " ")
		var err error
		if n[i], err = strconv.ParseInt(number, 10, 64); err != nil || !more && i < len(n)-1 {
			return "", false
		}
		text = rest
	}
	b.see(n[4])
	a.now, a.left, a.ahead, a.heard = n[0], time.Duration(n[1])*time.Millisecond, n[2], n[3] > 0
	b.times.learn(a.now, a.sent)
	b.waits(t, a)
	t.joined(t.claim.Name, a.ahead, a.sent)
	return text, true
}

// waits takes note of that the server has the claim in the queue.
func (b *backend) waits(t *ticket, a *answer) {
	b.watch(t.bucket)
	t.touched, t.before = true, true
	a.queued = true
}

func numbers(values []any) ([]int64, bool) {
	n := make([]int64, len(values))
	for i, v := range values {
		x, ok := v.(int64)
		if !ok {
			return nil, false
		}
		n[i] = x
	}
	return n, true
}

// see remembers the highest token.
func (b *backend) see(token int64) {
	for {
		seen := b.seen.Load()
		if token <= seen || b.seen.CompareAndSwap(seen, token) {
			return
		}
	}
}

// grant is the answer to the core: the server began to count after sent.
func (t *ticket) grant(token int64, sent driver.Instant) driver.Grant {
	return driver.Grant{Token: token, Until: sent.Add(t.claim.TTL)}
}

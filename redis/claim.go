package redis

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// ticket is what the driver keeps of a claim.
type ticket struct {
	claim *driver.Claim
	place
	ttl   int64  // in milliseconds
	entry string // what stands in the queue for it

	// stray is the server time until which a request of unknown outcome may still
	// have an effect, 0 if there is none. Set by Acquire only.
	stray int64
	// before is set when the claim may be in the queue.
	before bool
}

func (b *backend) ticket(c *driver.Claim) *ticket {
	t := &ticket{claim: c, place: b.layout.of(c.Name)}
	t.ttl = int64((c.TTL + time.Millisecond - 1) / time.Millisecond)
	c.State = t
	return t
}

func (t *ticket) channelOf(b *backend) string { return t.channel + b.id }

func (t *ticket) keys() []string {
	return []string{t.lock, t.queue, t.clock, t.gone(t.claim.ID)}
}

// entryIn is the text by which the scripts know the claim in its queue.
func (t *ticket) entryIn(b *backend) string {
	if t.entry == "" {
		t.entry = t.claim.ID + " " + b.id + " " + strconv.FormatInt(t.ttl, 10) + " " + t.claim.Owner
	}
	return t.entry
}

// answer is what the server said to a request to acquire.
type answer struct {
	sent  driver.Instant
	token int64 // if greater than 0 the claim is granted

	// Otherwise, if queued, it waits.
	queued bool
	now    int64 // the server's time
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

// ask sends one request to acquire. An answer that is neither a token nor queued
// means that the name is taken.
func (b *backend) ask(ctx context.Context, t *ticket, how int) (answer, error) {
	const tries = 3 // a first guess of the server's time may be wrong
	for try := 1; ; try++ {
		a, late, err := b.askOnce(ctx, t, how)
		if err != nil || !late {
			return a, err
		}
		if try == tries {
			return a, fmt.Errorf("the server's time moves: request came late %d times", tries)
		}
	}
}

func (b *backend) askOnce(ctx context.Context, t *ticket, how int) (a answer, late bool, err error) {
	c := t.claim
	locker, before := "", ""
	if how != dontWait {
		locker = b.id
	}
	if how == waitAndProbe {
		before = "probe"
	} else if t.before {
		before = "again"
	}
	a.sent = b.clock.Now()
	latest := b.times.latest(a.sent)
	reply, err := acquireScript.run(ctx, b.client, t.keys(),
		c.ID, t.channel, b.layout.shard(), b.seen.Load(),
		t.ttl, latest, locker, before, c.Owner, patience.Milliseconds())
	if err != nil {
		if !refused(err) {
			t.stray = max(t.stray, latest)
			t.before = t.before || how != dontWait
		}
		return a, false, err
	}
	switch v := reply.(type) {
	case int64:
		if v < 0 {
			return a, false, fmt.Errorf("claim %s has been given up", c.ID)
		}
		a.token = v
		b.see(v)
		return a, false, nil
	case []any:
		n, ok := numbers(v)
		if ok && len(n) == 1 {
			b.times.learn(n[0], a.sent)
			return a, true, nil
		}
		if ok && len(n) == 5 {
			b.times.learn(n[0], a.sent)
			b.see(n[2])
			t.before = true
			a.queued, a.now, a.ahead, a.heard = true, n[0], n[3], n[4] == 1
			a.left = time.Duration(n[1]) * time.Millisecond
			return a, false, nil
		}
	}
	return a, false, fmt.Errorf("the server answered %v to the script", reply)
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

package redlock

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

const (
	// coarse is what is taken off every validity because Redis counts whole
	// milliseconds.
	coarse = 2 * time.Millisecond
	// tokenTries is how many times a token is raised before the votes are given
	// back. Each time somebody else has raised a clock of the bucket meanwhile.
	tokenTries = 4
)

// Acquire asks once or waits.
func (b *backend) Acquire(ctx context.Context, dc *driver.Claim) (driver.Grant, error) {
	c := b.newClaim(dc, b.tokens.stamp())
	b.join(c)
	grant, err := b.ask(ctx, c)
	if err != nil {
		b.leave(c)
	}
	return grant, err
}

// ask begins with a plain bid where that is likely to be enough.
func (b *backend) ask(ctx context.Context, c *claim) (grant driver.Grant, err error) {
	if c.plain {
		grant, _, err = b.bid(ctx, c, false, true)
		if err == nil || ctx.Err() != nil {
			return grant, err
		}
	}
	if c.Wait {
		w := waiter{b: b, c: c, err: err}
		return w.wait(ctx)
	}
	return b.try(ctx, c)
}

// try asks once. What the nodes gave is given back if it was too little.
func (b *backend) try(ctx context.Context, c *claim) (driver.Grant, error) {
	grant, replies, err := b.bid(ctx, c, false, false)
	if err == nil {
		return grant, nil
	}
	undo := b.clean(c)
	taken, yes := count(replies)
	if ctx.Err() != nil || taken == 0 || taken+yes < b.quorum {
		return driver.Grant{}, failed(ctx, err)
	}
	// Another has it, or at least some of it. Who asks next should not find ours.
	var ours nodeSet
	for i, rep := range replies {
		if rep.yes {
			ours = ours.with(i)
		}
	}
	undo.wait(ctx, b.bound, ours)
	if ctx.Err() != nil {
		return driver.Grant{}, failed(ctx, err)
	}
	return driver.Grant{}, driver.ErrTaken
}

// failed is what to say after err, which is nil if ctx ended before there was
// anything to complain of. The core adds that ctx has ended.
func failed(ctx context.Context, err error) error {
	if err == nil {
		return ctx.Err()
	}
	return err
}

func count(replies []reply) (taken, yes int) {
	for _, rep := range replies {
		if rep.yes {
			yes++
		} else if rep.err == nil {
			taken++
		}
	}
	return taken, yes
}

// expectsFree: the first question for a lock may be a plain SET NX, which costs the nodes
// less than the script. If it is refused the script has to follow, which knows the queue,
// and whether who has the lock has been withdrawn. And should it come late it leaves what
// others have to clear away, so it is not sent where an answer may fail to come.
func (b *backend) expectsFree() bool {
	return !b.fenced && !b.crowd.Expected() && !slices.ContainsFunc(b.nodes, (*node).slow)
}

// bid asks all nodes for the lock: one round when our guess of the token is above
// the clocks of a majority, and otherwise a second one for the token. A plain bid has
// no token and stands in no queue.
func (b *backend) bid(ctx context.Context, c *claim, queue, plain bool) (driver.Grant, []reply, error) {
	start := b.clock.Now()
	var token int64
	text := ""
	if b.fenced {
		token = b.tokens.guess()
		text = strconv.FormatInt(token, 10)
	}
	q := &round{script: bidScript, plain: plain, queue: queue, judge: judgeBid, heard: b.lateVote(c)}
	if plain {
		q.args = c.plainBid()
	} else {
		q.args = c.bidFor(text, queue)
	}
	r := b.put(c, q)
	won := r.wait(ctx)
	b.crowd.Met(!won)
	replies := r.replies()
	b.learn(token, replies)
	if !won || r.mutex().TryLockContext(ctx) != nil {
		return driver.Grant{}, replies, failed(ctx, b.quorumError(replies))
	}
	written := 0
	for _, rep := range replies {
		if rep.yes && !rep.low {
			written++
		}
	}
	if !b.fenced || written >= b.quorum {
		grant, err := b.grant(c, start, token)
		return grant, replies, err
	}
	grant, err := b.confirm(ctx, c, max(token, highest(replies)))
	return grant, replies, err
}

// lateVote rouses a waiter of which another node turned out to be free after it
// had been decided that too few were.
func (b *backend) lateVote(c *claim) func(int, reply) {
	if !c.Wait {
		return nil
	}
	return func(i int, rep reply) {
		if rep.yes {
			c.wake(func() { c.late = c.late.with(i) })
		}
	}
}

// confirm writes a token above floor on the nodes that gave us the lock, and
// counts their time anew. A majority of such writes is what makes a holder.
func (b *backend) confirm(ctx context.Context, c *claim, floor int64) (driver.Grant, error) {
	var replies []reply
	for try := range tokenTries {
		start := b.clock.Now()
		var token int64
		text := ""
		if b.fenced {
			token = max(floor+1+int64(try)*100, b.tokens.guess())
			text = strconv.FormatInt(token, 10)
		}
		r := b.put(c, &round{
			script: confirmScript,
			args:   confirmScript.call([]string{c.lock, c.clock}, c.head, c.ttl, text),
			judge:  judgeConfirm,
		})
		won := r.wait(ctx)
		replies = r.replies()
		if won {
			won, _ = r.mutex().ExtendContext(ctx)
		}
		if won {
			return b.grant(c, start, token)
		}
		b.learn(token, replies)
		floor = max(token, highest(replies))
		if _, yes := count(replies); yes < b.quorum || ctx.Err() != nil {
			break
		}
	}
	return driver.Grant{}, failed(ctx, fmt.Errorf("no token: %w", b.quorumError(replies)))
}

func (b *backend) learn(token int64, replies []reply) {
	for _, rep := range replies {
		if rep.low {
			b.tokens.refused(token, rep.clock, rep.now)
		} else if rep.now != 0 {
			b.tokens.heard(rep.now)
		}
	}
}

func highest(replies []reply) int64 {
	var clock int64
	for _, rep := range replies {
		clock = max(clock, rep.clock, rep.now)
	}
	return clock
}

// grant is the holding that began to count at start, if any of it is left.
func (b *backend) grant(c *claim, start driver.Instant, token int64) (driver.Grant, error) {
	until := start.Add(c.TTL - coarse)
	if b.clock.Now() >= until {
		return driver.Grant{}, fmt.Errorf("a majority said yes, but only after the TTL of %v was over", c.TTL)
	}
	c.mu.Lock()
	c.token = token
	c.mu.Unlock()
	return driver.Grant{Token: token, Until: until}, nil
}

func judgeBid(v any) reply {
	switch v := v.(type) {
	case nil: // to a plain one
		return reply{}
	case string:
		if v == "OK" {
			return reply{yes: true}
		}
	case int64:
		if v == 1 {
			return reply{yes: true}
		}
		return reply{err: errWithdrawn}
	case []any:
		if len(v) == 3 && v[0] == int64(2) {
			clock, _ := v[1].(int64)
			now, _ := v[2].(int64)
			return reply{yes: true, low: true, clock: clock, now: now}
		}
		if len(v) == 4 {
			holder, _ := v[1].(string)
			left, _ := v[2].(int64)
			now, _ := v[3].(int64)
			return reply{holder: holder, left: time.Duration(left) * time.Millisecond, now: now}
		}
	}
	return reply{err: strange(v)}
}

func judgeConfirm(v any) reply {
	switch v := v.(type) {
	case int64:
		return reply{yes: v == 1}
	case []any:
		if len(v) == 2 {
			clock, _ := v[1].(int64)
			return reply{yes: true, low: true, clock: clock}
		}
	}
	return reply{err: strange(v)}
}

func strange(v any) error { return fmt.Errorf("unexpected answer %v (%T)", v, v) }

package redlock

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// rounds is how long it takes a sleeping waiter to ask every node, one after the
// other, whether it has been forgotten. The nodes forget a queue of which they hear
// nothing for 15 s (see the scripts): that is what becomes of waiters who died.
const rounds = 11 * time.Second

// spread is over how long those who wait for the same moment are scattered.
const spread = 100 * time.Millisecond

// waiter is one Acquire that waits. It bids at all nodes, which puts it in the
// queue of those that others hold, and then sleeps until there is a reason to bid
// again: it is told that the lock was handed to it or that it should look, or the
// time of the holder must be over.
type waiter struct {
	b *backend
	c *claim

	holder  string    // who had the most votes when we last bid
	ours    nodeSet   // the nodes whose votes we have, as far as we know
	beaten  bool      // holder has a majority
	due     time.Time // when to look without being told
	splits  int       // bids in a row after which nobody had a majority
	outages int       // bids in a row that too few nodes answered
	next    int       // the node to glance at next
	slept   bool      // it was not free at once
	err     error     // of the last bid
}

func (w *waiter) wait(ctx context.Context) (driver.Grant, error) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		grant, err := w.bid(ctx)
		for again := false; err == nil && grant.Until == 0 && !again; {
			w.slept = true
			timer.Reset(time.Until(w.due))
			select {
			case <-w.c.mail:
			case <-timer.C:
			case <-ctx.Done():
				return driver.Grant{}, failed(ctx, w.err)
			}
			grant, again = w.stir(ctx)
		}
		if err != nil || grant.Until != 0 {
			return grant, err
		}
	}
}

// bid asks all nodes. With neither a grant nor an error the waiter is to sleep
// until it is due.
func (w *waiter) bid(ctx context.Context) (driver.Grant, error) {
	b, c := w.b, w.c
	c.mu.Lock()
	c.look, c.votes = false, 0
	c.mu.Unlock()
	listening := b.bell.listening()
	grant, replies, err := b.bid(ctx, c, listening)
	if err == nil {
		return grant, nil
	}
	hopelessly := 0
	for _, rep := range replies {
		if rep.err != nil && hopeless(rep.err) {
			hopelessly++
		}
	}
	if ctx.Err() != nil || len(b.nodes)-hopelessly < b.quorum {
		return driver.Grant{}, failed(ctx, err)
	}
	w.err = err
	pause := w.weigh(replies)
	if !listening {
		// Nobody could hand the lock to us, so we have not stood in the queue.
		if pause = min(pause, time.Second); b.bell.listen(ctx) {
			pause = 0
		}
	}
	w.due = time.Now().Add(pause)
	return driver.Grant{}, nil
}

// weigh decides what becomes of the votes we have, which are too few, and how
// long to sleep.
func (w *waiter) weigh(replies []reply) time.Duration {
	var ours nodeSet
	var left time.Duration
	rivals := make(map[string]int)
	first := true
	taken, most := 0, 0
	for i, rep := range replies {
		switch {
		case rep.yes:
			ours = ours.with(i)
		case rep.err == nil:
			taken++
			left = max(left, rep.left)
			first = first && w.c.head < rep.holder
			if rivals[rep.holder]++; rivals[rep.holder] > most {
				most, w.holder = rivals[rep.holder], rep.holder
			}
		}
	}
	w.c.mu.Lock()
	w.c.votes &^= ours // they have been counted
	w.c.mu.Unlock()
	w.ours = ours
	w.beaten = most >= w.b.quorum
	switch {
	case taken+ours.len() < w.b.quorum:
		w.outages++
		w.yield()
		return backoff(50*time.Millisecond, time.Second, w.outages)
	case ours != 0 && most < w.b.quorum && first && w.splits < 3:
		// The votes are split, as far as we can see. Whoever came first keeps its
		// votes and the others give it theirs, and tell it. In case one of them has
		// died, or has a majority that we cannot see, it asks again, but not for ever.
		w.outages = 0
		w.splits++
		return backoff(5*time.Millisecond, 50*time.Millisecond, w.splits)
	}
	w.outages, w.splits = 0, 0
	if !w.beaten {
		w.yield()
	}
	// Somebody has a majority without the nodes that we have. We keep these: given
	// back, they would go round among those who wait.
	return w.until(left)
}

// yield gives the votes we have to those who wait.
func (w *waiter) yield() {
	w.b.yield(w.c, w.ours)
	w.ours = 0
}

// until is how long to sleep when the holder has so much time left.
func (w *waiter) until(left time.Duration) time.Duration {
	return min(max(left, 0)+time.Millisecond+rand.N(spread), rounds/time.Duration(len(w.b.nodes)))
}

// backoff is a random time of which the bounds double with each failure in a row.
func backoff(first, most time.Duration, failures int) time.Duration {
	d := min(first<<min(failures-1, 10), most)
	return d/2 + rand.N(d/2+1)
}

// stir finds out why the sleep has ended. It returns a grant, or whether to bid
// at all nodes again.
func (w *waiter) stir(ctx context.Context) (grant driver.Grant, again bool) {
	b, c := w.b, w.c
	c.mu.Lock()
	handed, token, yielded := c.handed, c.handToken, c.yielded
	look, votes, stirred := c.look, c.votes, c.stirred
	c.handed, c.votes, c.stirred = false, 0, 0
	c.mu.Unlock()
	if w.ours |= votes; votes != 0 && !w.beaten {
		look = true
	}
	switch {
	case handed && !yielded:
		grant, err := w.accept(ctx, token)
		return grant, err != nil
	case handed, look:
		return grant, true
	}
	for i := range b.nodes {
		if stirred.has(i) && w.news(i, b.glance(ctx, c, i)) {
			return grant, true
		}
	}
	if time.Now().Before(w.due) {
		return grant, false
	}
	if w.outages > 0 || w.splits > 0 || !b.bell.listening() {
		return grant, true
	}
	for range b.nodes {
		i := w.next % len(b.nodes)
		w.next++
		if b.nodes[i].weak() {
			continue
		}
		switch rep := b.glance(ctx, c, i); {
		case ctx.Err() != nil:
			return grant, false
		case w.news(i, rep):
			return grant, true
		case rep.err == nil && !rep.yes:
			w.due = time.Now().Add(w.until(rep.left))
			return grant, false
		}
		// A node that is ours does not know how much time the holder has left.
	}
	return grant, true
}

// news: what a node says is a reason to ask all of them.
func (w *waiter) news(i int, rep reply) bool {
	switch {
	case rep.err != nil:
		return false
	case rep.yes:
		return !w.ours.has(i)
	}
	return rep.holder != w.holder
}

// accept takes a lock that was handed over to us. All nodes count our TTL from a
// moment after our first request, so if that is not long ago nothing has to be
// asked.
func (w *waiter) accept(ctx context.Context, token int64) (driver.Grant, error) {
	fresh := w.b.clock.Now().Sub(w.c.began) < w.c.TTL/3
	if fresh && (token > 0 || !w.b.fenced) {
		return w.b.grant(w.c, w.c.began, token)
	}
	return w.b.confirm(ctx, w.c, token)
}

// glance bids at one node.
func (b *backend) glance(ctx context.Context, c *claim, i int) reply {
	g := &single{b: b, c: c, done: make(chan reply, 1)}
	req := &request{job: g, c: c, i: i}
	c.asking(i)
	b.nodes[i].submit(req)
	bound := time.NewTimer(b.bound)
	defer bound.Stop()
	select {
	case rep := <-g.done:
		return rep
	case <-bound.C:
	case <-ctx.Done():
	}
	if req.cancel() {
		c.asked(i, notSent, true)
	}
	return reply{err: b.nodes[i].late}
}

// single is a bid at one node.
type single struct {
	b    *backend
	c    *claim
	done chan reply
}

func (g *single) command(i int) (*script, []any) {
	// No token: if the lock turns out to be free all nodes are asked anyway.
	return bidScript, bidScript.call([]string{g.c.lock, g.c.clock, g.c.wait, g.c.gone}, g.c.value, g.c.ttl, "", "1")
}

func (g *single) answered(i int, v any, err error, sent bool) {
	rep := reply{err: err, sent: sent}
	if err == nil {
		rep = judgeBid(v)
	}
	g.c.asked(i, rep, true)
	g.done <- rep
	if rep.yes {
		g.c.wake(func() { g.c.votes = g.c.votes.with(i) })
	}
}

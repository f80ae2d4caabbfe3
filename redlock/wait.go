package redlock

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

const (
	// longest is how long a waiter sleeps at most before it looks whether it has been
	// forgotten, and looks how many times it asks one node only before it asks all
	// again. The nodes forget a queue of which they hear nothing for 15 s (see the
	// scripts), more than all of it together: that is what becomes of waiters who died.
	longest = 3 * time.Second
	looks   = 3
)

// spread is over how long those who wait for the same moment are scattered.
const spread = 100 * time.Millisecond

// waiter is one Acquire that waits. It bids at all nodes, which puts it in the
// queue of those that others hold, and then sleeps until there is a reason to bid
// again: it is told that the lock was handed to it or that it should look, or the
// time of the holder must be over.
//
// Whatever message is lost, and whatever a node says or does not say, it bids again by
// itself: every sleep ends when it is due, which is at most longest away and is set
// anew by all that comes before a sleep; the sleep is followed by a bid, or by a look at one
// node, of which there are only so many in a row; and bids and looks, and the listening
// to nodes, end with the nodes' bound. A bid depends on nothing that was heard before.
type waiter struct {
	b *backend
	c *claim

	holder    string    // who had the most votes when we last bid
	beaten    bool      // holder has a majority
	listening bool      // when we last bid: without it nobody could hand the lock to us
	due       time.Time // when to look without being told
	splits    int       // bids in a row after which nobody had a majority
	outages   int       // bids in a row that too few nodes answered
	looks     int       // at one node only, in a row
	next      int       // the node to look at next
	err       error     // of the last bid
}

func (w *waiter) wait(ctx context.Context) (driver.Grant, error) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	w.looks = rand.N(looks + 1) // so that not all who wait ask all nodes at the same time
	for {
		grant, err := w.bid(ctx)
		if err != nil || grant.Until != 0 {
			return grant, err
		}
		if !w.listening && w.b.bell.listen(ctx) {
			continue // into the queues
		}
		for again := false; !again; {
			timer.Reset(time.Until(w.due))
			select {
			case <-w.c.mail:
			case <-timer.C:
			case <-ctx.Done():
				return driver.Grant{}, failed(ctx, w.err)
			}
			if grant, again = w.stir(ctx); grant.Until != 0 {
				return grant, nil
			}
		}
	}
}

// bid asks all nodes. With neither a grant nor an error the waiter is to sleep
// until it is due.
func (w *waiter) bid(ctx context.Context) (driver.Grant, error) {
	b, c := w.b, w.c
	had := c.beginAnew()
	w.listening = b.bell.listening()
	grant, replies, err := b.bid(ctx, c, w.listening, false)
	if err == nil {
		return grant, nil
	}
	hopelessly := 0
	for i, rep := range replies {
		if rep.err != nil && rep.err != b.nodes[i].unasked && hopeless(rep.err) {
			hopelessly++
		}
	}
	if ctx.Err() != nil && w.err != nil && !b.anySaid(replies) {
		err = w.err // what was in the way before says more
	}
	if ctx.Err() != nil || len(b.nodes)-hopelessly < b.quorum {
		return driver.Grant{}, failed(ctx, err)
	}
	w.err = err
	pause := w.weigh(replies, had)
	if !w.listening {
		pause = min(pause, time.Second)
	}
	w.due = time.Now().Add(pause)
	return driver.Grant{}, nil
}

// anySaid reports whether any node has said anything.
func (b *backend) anySaid(replies []reply) bool {
	for i, rep := range replies {
		if n := b.nodes[i]; rep.err != n.late && rep.err != n.unasked && rep.err != n.unsent {
			return true
		}
	}
	return false
}

// weigh decides what becomes of the votes we have, which are too few, and how
// long to sleep. Before the bid we had those of some nodes.
func (w *waiter) weigh(replies []reply, had nodeSet) time.Duration {
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
	w.c.ours = ours
	w.c.late &^= ours // they have been counted
	w.c.mu.Unlock()
	w.beaten = most >= w.b.quorum
	if taken >= w.b.quorum && ours|had == 0 {
		// To stand in the queue of a majority is enough to be handed that majority.
		w.c.bids(nil)
	}
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
	w.c.mu.Lock()
	ours := w.c.ours
	w.c.mu.Unlock()
	w.b.yield(w.c, ours)
}

// until is how long to sleep when the holder has so much time left.
func (w *waiter) until(left time.Duration) time.Duration {
	return min(max(left, 0)+time.Millisecond+rand.N(spread), longest)
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
	has, token := c.handed.len() >= b.quorum, int64(0)
	if c.written.len() >= b.quorum {
		token = c.handToken
	}
	again = c.look || c.late != 0 && !w.beaten
	c.ours |= c.late
	again = again || (c.ours|c.handed).len() >= b.quorum
	stirred := c.stirred
	c.look, c.late, c.stirred = false, 0, 0
	c.mu.Unlock()
	switch {
	case has:
		grant, err := w.accept(ctx, token)
		return grant, err != nil
	case again:
		return grant, true
	}
	for i := range b.nodes {
		if stirred.has(i) && w.news(ctx, i) {
			return grant, true
		}
	}
	return grant, !time.Now().Before(w.due) && w.look(ctx)
}

// look asks a node whether the holder still has the lock. It returns whether to ask
// all of them.
func (w *waiter) look(ctx context.Context) (again bool) {
	i := w.witness()
	if w.looks++; w.looks > looks {
		w.looks, i = 0, -1
	}
	return i < 0 || w.outages > 0 || w.splits > 0 || !w.b.bell.listening() || w.news(ctx, i)
}

// news asks node i, and says whether its answer is a reason to ask all of them. No answer
// is none: then the waiter is due as before, and asks somebody else.
func (w *waiter) news(ctx context.Context, i int) bool {
	rep := w.b.glance(ctx, w.c, i)
	switch {
	case rep.err != nil:
		return false
	case rep.yes:
		return !w.c.has(i)
	case rep.holder != w.holder:
		return true
	}
	w.due = time.Now().Add(w.until(rep.left))
	return false
}

// witness is a node that answers and that may know of the holder, each time another; -1
// if there is none.
func (w *waiter) witness() int {
	for range w.b.nodes {
		i := w.next % len(w.b.nodes)
		w.next++
		if !w.b.nodes[i].weak() && !w.c.has(i) {
			return i
		}
	}
	return -1
}

// accept takes a lock that was handed over to us. All nodes count our TTL from a
// moment after our first request, so if that is not long ago nothing has to be
// asked.
func (w *waiter) accept(ctx context.Context, token int64) (grant driver.Grant, err error) {
	fresh := w.b.clock.Now().Sub(w.c.began) < w.c.TTL/3
	if fresh && (token > 0 || !w.b.fenced) {
		grant, err = w.b.grant(w.c, w.c.began, token)
	} else {
		grant, err = w.b.confirm(ctx, w.c, token)
	}
	if err == nil {
		w.b.spread(w.c)
	}
	return grant, err
}

// spread takes the lock also on the nodes in whose queue we have not stood, unless it is
// released before.
func (b *backend) spread(c *claim) {
	c.bids(nil)
	if rest := allNodes(len(b.nodes)) &^ c.traces(); rest != 0 {
		b.put(c, &round{
			script: bidScript,
			queue:  true,
			args:   c.bidFor("", true),
			judge:  judgeBid,
			rest:   rest,
		})
	}
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
	return bidScript, g.c.bidFor("", true)
}

func (g *single) answered(i int, v any, err error, sent bool) {
	rep := reply{err: err, sent: sent}
	if err == nil {
		rep = judgeBid(v)
	}
	g.c.asked(i, rep, true)
	g.done <- rep
	if rep.yes {
		g.c.wake(func() { g.c.late = g.c.late.with(i) })
	}
}

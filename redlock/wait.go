package redlock

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/redisnode"
)

const (
	// fallback is how often a waiter looks at least, whatever it was told. The servers keep a queue
	// three times as long at which no waiter has looked.
	fallback = 20 * time.Second
	// stragglers is how long the other nodes are waited for when one has granted the name, or has
	// confirmed the subscription.
	stragglers = 10 * time.Millisecond
	// splits is how many times in a row a waiter asks again soon because nobody has a majority.
	splits = 4
)

// listening reports whether enough nodes tell news already.
func (b *backend) listening(c *claim) bool {
	first, _ := b.order(c.Name)
	return !slices.ContainsFunc(first, func(i int) bool { return !c.votes[i].Listening(c.votes[i].at) })
}

// wait queues at the nodes until a majority has granted the name.
func (b *backend) wait(ctx context.Context, c *claim) (driver.Grant, error) {
	listen, stop := context.WithCancel(ctx)
	defer stop()
	for _, v := range c.votes {
		v.Join(v.at, func(e redisnode.Event) { b.hear(listen, c, v, e) })
		defer v.Leave(v.at)
	}
	b.subscribe(listen, c)
	var failed error
	w := waiter{b: b, claim: c}
	for q := (question{wait: true}); ; {
		if held, _ := b.count(c); held < b.quorum || q.yield {
			b.ask(ctx, c, q)
		}
		g, err := b.grant(ctx, c)
		if err == nil {
			return g, nil
		}
		if ctx.Err() == nil || failed == nil {
			failed = err
		}
		pause := w.next()
		if ctx.Err() != nil {
			return driver.Grant{}, because(ctx.Err(), failed)
		}
		if err := b.vain(c); err != nil {
			return driver.Grant{}, err
		}
		q.yield = w.sleep(ctx, pause)
		if ctx.Err() != nil {
			return driver.Grant{}, because(ctx.Err(), failed)
		}
	}
}

// vain returns an error if too many nodes say what no waiting mends.
func (b *backend) vain(c *claim) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := &QuorumError{Nodes: len(c.votes)}
	for _, v := range c.votes {
		switch {
		case hopeless(v.err):
			e.Errs = append(e.Errs, v.err)
		case v.deaf != nil:
			e.Errs = append(e.Errs, v.deaf)
		}
	}
	if len(e.Errs) > len(c.votes)-b.quorum {
		return e
	}
	return nil
}

// hear takes news from a node; it does not block.
func (b *backend) hear(listen context.Context, c *claim, v *vote, e redisnode.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case e.Granted:
		v.told(e)
		c.handed = true
	case e.In > 0:
		c.in = e.In
	case e.Received == 0: // the subscription was interrupted
		c.look = true
		b.working.Go(func() { b.ready(listen, c, v) })
	default:
		c.evicted = true
	}
	c.rouse()
}

// subscribe waits until the nodes tell news, but for most of them not for long.
func (b *backend) subscribe(listen context.Context, c *claim) {
	bound := time.NewTimer(b.bound)
	defer bound.Stop()
	up := make(chan struct{}, len(c.votes))
	for _, v := range c.votes {
		if v.silent.Load() || v.Listening(v.at) {
			up <- struct{}{}
			continue
		}
		b.working.Go(func() {
			b.ready(listen, c, v)
			up <- struct{}{}
		})
	}
	for n := range c.votes {
		if n == b.quorum {
			bound.Reset(stragglers)
		}
		select {
		case <-up:
		case <-bound.C:
			return
		case <-listen.Done():
			return
		}
	}
	c.mu.Lock()
	c.look = false
	c.mu.Unlock()
}

// ready waits until a node tells news, and then has the claim queue there, too.
func (b *backend) ready(listen context.Context, c *claim, v *vote) {
	c.mu.Lock()
	again := v.listening
	v.listening = true
	c.mu.Unlock()
	if again {
		return
	}
	err := v.wrap(v.Ready(listen, v.at))
	c.mu.Lock()
	defer c.mu.Unlock()
	v.listening = false
	switch {
	case listen.Err() != nil:
	case err == nil:
		c.look = true
		c.rouse()
	case hopeless(err):
		v.deaf = err
		b.log.Warn("locker: redlock: a node cannot tell when a name is free", "node", v.name, "error", err)
		c.look = true
		c.rouse()
	}
}

// waiter decides when a claim that waits looks again.
type waiter struct {
	*claim
	b       *backend
	outages int // looks in a row that too few nodes answered
	splits  int // looks in a row after which nobody seemed to have a majority
	yield   bool
}

// next returns how long to sleep after what the nodes have said.
func (w *waiter) next() time.Duration {
	held, refused := w.b.count(w.claim)
	w.mu.Lock()
	defer w.mu.Unlock()
	rivals := make(map[string]int)
	most := 0
	var lefts []time.Duration // until the node may be ours
	for _, v := range w.votes {
		switch {
		case v.held:
			lefts = append(lefts, 0)
		case v.answered:
			if v.said.Who != "" {
				rivals[v.said.Who]++
				most = max(most, rivals[v.said.Who])
			}
			left := v.said.Left
			if left < 0 || left > fallback {
				left = fallback + rand.N(fallback/4)
			}
			lefts = append(lefts, left+jitter(v.said.Ahead))
		}
	}
	w.yield = false
	if held+refused < w.b.quorum {
		w.outages++
		w.yield = held > 0
		return backoff(redisnode.MinPause, redisnode.MaxPause, w.outages)
	}
	w.outages = 0
	if held > 0 && most < w.b.quorum && w.splits < splits {
		// Those who hold the name on too few nodes leave them to the oldest who waits there.
		w.splits++
		w.yield = true
		return backoff(stragglers/2, 4*stragglers, w.splits)
	}
	w.splits = 0
	slices.Sort(lefts)
	return lefts[w.b.quorum-1]
}

// sleep returns when there is a reason to ask or a majority has granted the name, with whether to
// yield.
func (w *waiter) sleep(ctx context.Context, pause time.Duration) (yield bool) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	yield = w.yield
	for {
		select {
		case <-timer.C:
			return yield
		case <-ctx.Done():
			return yield
		case <-w.news:
		}
		if held, _ := w.b.count(w.claim); held >= w.b.quorum {
			return false
		}
		w.mu.Lock()
		look, handed, evicted, in := w.look, w.handed, w.evicted, w.in
		w.look, w.handed, w.evicted, w.in = false, false, false, 0
		w.mu.Unlock()
		switch {
		case look:
			return yield
		case handed:
			yield = true // if the other nodes do not follow
			timer.Reset(stragglers)
		case evicted:
			w.requeue()
			timer.Reset(stragglers) // until the other nodes have been told
		case in > 0:
			timer.Reset(in + jitter(0))
		}
	}
}

// requeue has the claim queue anew, at the end.
func (w *waiter) requeue() {
	since := w.b.time()
	w.b.working.Go(func() {
		for _, v := range w.votes {
			v.calls.Lock()
			v.at.Since = since
			v.calls.Unlock()
		}
	})
}

// jitter returns how long after the end of a holding a waiter looks. The first in the queue looks
// at once. The others leave it the time to, but within a second one of them stands in for it.
func jitter(ahead int64) time.Duration {
	if ahead == 0 {
		return 5*time.Millisecond + rand.N(20*time.Millisecond)
	}
	return 300*time.Millisecond + rand.N(400*time.Millisecond)
}

// backoff is a random time of which the bounds double with each failure in a row.
func backoff(first, most time.Duration, failures int) time.Duration {
	d := min(first<<min(failures-1, 10), most)
	return d/2 + rand.N(d/2+1)
}

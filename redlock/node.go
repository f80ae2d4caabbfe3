package redlock

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/redisnode"
)

const (
	// slowAfter is how long a node may take before the others are asked, too.
	slowAfter = 20 * time.Millisecond
	// patience is how many node timeouts a request has.
	patience = 3
)

// node is one of the servers.
type node struct {
	*redisnode.Node
	name    string
	slow    atomic.Bool // it is asked last
	silent  atomic.Bool // it has not answered within the node timeout
	probing atomic.Bool

	mu    sync.Mutex
	debts []debt // what it is to be told when it answers again
}

// debt is what is to be done until then.
type debt struct {
	until driver.Instant
	do    func()
}

// request makes a request to the node. One that has not answered within the node timeout is silent,
// but has some more time: it may be this machine that is slow.
func (b *backend) request(n *node, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(b.life, patience*b.bound)
	defer cancel()
	late := time.AfterFunc(b.bound, func() {
		if !n.silent.Swap(true) {
			b.log.Warn("locker: redlock: a node does not answer", "node", n.name, "waited", b.bound)
		}
	})
	defer late.Stop()
	start := time.Now()
	err := f(ctx)
	b.heard(n, time.Since(start), err)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		// The core takes these errors for those of its own context.
		return fmt.Errorf("node %s: no answer within %v", n.name, patience*b.bound)
	}
	return fmt.Errorf("node %s: %w", n.name, err)
}

// heard notes how the node has answered, after took.
func (b *backend) heard(n *node, took time.Duration, err error) {
	answered := err == nil || redisnode.Word(err) != ""
	n.slow.Store(!answered || took > slowAfter)
	if answered && n.silent.Swap(false) {
		b.log.Info("locker: redlock: a node answers again", "node", n.name)
	}
}

// leftOut reports whether a node is silent and there is a majority without it. Whether it answers
// again is then found out aside.
func (b *backend) leftOut(n *node) bool {
	if !n.silent.Load() {
		return false
	}
	others := 0
	for _, other := range b.nodes {
		if !other.silent.Load() {
			others++
		}
	}
	b.probe(n)
	return others >= b.quorum
}

// order returns the nodes to ask for name: the first majority, for one name everywhere the same
// while all answer, and the rest, without those left out.
func (b *backend) order(name string) (first, rest []int) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	start := int(h.Sum32() % uint32(len(b.nodes)))
	var all, slow []int
	for k := range b.nodes {
		i := (start + k) % len(b.nodes)
		switch n := b.nodes[i]; {
		case b.leftOut(n):
		case n.slow.Load():
			slow = append(slow, i)
		default:
			all = append(all, i)
		}
	}
	all = append(all, slow...)
	return all[:min(b.quorum, len(all))], all[min(b.quorum, len(all)):]
}

// probe asks a silent node whether it answers, unless that is being done.
func (b *backend) probe(n *node) {
	if n.probing.Swap(true) {
		return
	}
	b.working.Go(func() {
		defer n.probing.Store(false)
		_ = b.request(n, func(ctx context.Context) error {
			_, err := n.Look(ctx, "")
			return err
		})
	})
}

// owe has d done when the node is left out no longer.
func (b *backend) owe(n *node, d debt) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.debts = append(n.debts, d); len(n.debts) == 1 {
		time.AfterFunc(redisnode.MaxPause, func() { b.pay(n) })
	}
}

// pay has done what can be done, and looks again later if that was not all.
func (b *backend) pay(n *node) {
	out, now := b.leftOut(n), b.clock.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.debts = slices.DeleteFunc(n.debts, func(d debt) bool {
		over := now > d.until || b.closing.Err() != nil
		if !out && !over {
			b.working.Go(d.do)
		}
		return !out || over
	})
	if len(n.debts) > 0 {
		time.AfterFunc(redisnode.MaxPause, func() { b.pay(n) })
	}
}

// each calls f for the first nodes, all at once, and for the others when these are done or take
// long. It returns when enough says so, which is asked after each, ctx has ended, or all are done; after
// the node timeout if a majority is.
func (b *backend) each(ctx context.Context, first, rest []int, f func(i int), enough func() bool) {
	answers := make(chan struct{}, len(b.nodes))
	open, done, waited := 0, 0, time.Duration(0)
	put := func(nodes []int) {
		for _, i := range nodes {
			b.working.Go(func() {
				f(i)
				answers <- struct{}{}
			})
		}
		open += len(nodes)
	}
	put(first)
	timer := time.NewTimer(slowAfter)
	defer timer.Stop()
	for open > 0 {
		select {
		case <-answers:
			open--
			done++
		case <-timer.C:
			waited += slowAfter
			timer.Reset(slowAfter)
		case <-ctx.Done():
			return
		}
		if enough() || waited >= b.bound && done >= b.quorum {
			return
		}
		if open == 0 || waited > 0 {
			put(rest)
			rest = nil
		}
	}
}

// time returns about what time it is on the nodes, in microseconds: their median, so that one whose
// clock is wrong, or that has never answered, does not count.
func (b *backend) time() int64 {
	all := make([]int64, len(b.nodes))
	for i, n := range b.nodes {
		all[i] = n.Time()
	}
	slices.Sort(all)
	return all[len(all)/2]
}

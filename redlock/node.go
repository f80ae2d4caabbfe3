package redlock

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed80cd6120/locker/internal/redisnode"
)

// slowAfter is how long a node may take before the others are asked, too.
const slowAfter = 20 * time.Millisecond

// node is one of the servers.
type node struct {
	*redisnode.Node
	name    string
	slow    atomic.Bool // it is asked last
	silent  atomic.Bool // it is not asked as long as there is a majority without it
	probing atomic.Bool
}

// request makes a request to the node, which has the node timeout to answer.
func (b *backend) request(n *node, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(b.life, b.bound)
	defer cancel()
	start := time.Now()
	err := f(ctx)
	b.heard(n, time.Since(start), err)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		// The core takes these errors for those of its own context.
		return fmt.Errorf("node %s: no answer within %v", n.name, b.bound)
	}
	return fmt.Errorf("node %s: %w", n.name, err)
}

// heard notes how the node has answered, after took.
func (b *backend) heard(n *node, took time.Duration, err error) {
	answered := err == nil || redisnode.Word(err) != ""
	n.slow.Store(!answered || took > slowAfter)
	switch {
	case answered && n.silent.CompareAndSwap(true, false):
		b.log.Info("locker: redlock: a node answers again", "node", n.name)
	case !answered && took >= b.bound && b.life.Err() == nil && n.silent.CompareAndSwap(false, true):
		b.log.Warn("locker: redlock: a node does not answer", "node", n.name, "waited", took)
	}
}

// order returns the nodes to ask for name: the first majority, for one name everywhere the same
// while all answer, and the rest. Silent nodes are left out if there are enough others; whether
// they answer again is found out aside.
func (b *backend) order(name string) (first, rest []int) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	start := int(h.Sum32() % uint32(len(b.nodes)))
	var quick, slow, silent []int
	for k := range b.nodes {
		i := (start + k) % len(b.nodes)
		switch n := b.nodes[i]; {
		case n.silent.Load():
			silent = append(silent, i)
			b.probe(n)
		case n.slow.Load():
			slow = append(slow, i)
		default:
			quick = append(quick, i)
		}
	}
	all := append(quick, slow...)
	if len(all) < b.quorum {
		all = append(all, silent...)
	}
	return all[:b.quorum], all[b.quorum:]
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

// each calls f for the first nodes, all at once, and for the others when these are done or take
// long. It returns when enough says so, which is asked after each, all are done, or ctx has ended.
func (b *backend) each(ctx context.Context, first, rest []int, f func(i int), enough func() bool) {
	done := make(chan struct{}, len(b.nodes))
	open := 0
	put := func(nodes []int) {
		for _, i := range nodes {
			b.working.Go(func() {
				f(i)
				done <- struct{}{}
			})
		}
		open += len(nodes)
	}
	put(first)
	hurry := time.NewTimer(slowAfter)
	defer hurry.Stop()
	for open > 0 {
		hurried := false
		select {
		case <-done:
			open--
		case <-hurry.C:
			hurried = true
		case <-ctx.Done():
			return
		}
		if enough() {
			return
		}
		if open == 0 || hurried {
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

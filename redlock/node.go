package redlock

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed80cd6120/locker/internal/redisnode"
)

// patience is how many node timeouts a request has: it may be this machine that is slow.
const patience = 3

// node is one of the servers.
type node struct {
	*redisnode.Node
	name    string
	unheard error       // says that it has not answered
	silent  atomic.Bool // the last request had no answer in time
	probing atomic.Bool // a request finds out whether it answers again
}

// request makes a request to the node. A silent node gets one at a time, so that they do not pile up, unless too
// many are silent to leave it out.
func (b *backend) request(n *node, f func(ctx context.Context) error) error {
	if n.silent.Load() && int(b.silent.Load()) <= len(b.nodes)-b.quorum {
		if n.probing.Swap(true) {
			return fmt.Errorf("node %s: does not answer", n.name)
		}
		defer n.probing.Store(false)
	}
	return b.send(n, f)
}

// send makes a request to the node whether it is silent or not, and notes whether it is. An error names the node.
func (b *backend) send(n *node, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(b.life, patience*b.bound)
	defer cancel()
	err := f(ctx)
	silent := redisnode.TimedOut(err)
	switch before := n.silent.Swap(silent); {
	case silent && !before:
		b.silent.Add(1)
		b.log.Warn("locker: redlock: a node does not answer", "node", n.name, "error", err)
	case before && !silent:
		b.silent.Add(-1)
		b.log.Info("locker: redlock: a node answers again", "node", n.name)
	}
	switch {
	case settled(err):
		return err
	case ctx.Err() != nil: // the core would take that error for one of its own context
		return fmt.Errorf("node %s: no answer within %v", n.name, (patience * b.bound).Round(time.Millisecond))
	}
	return fmt.Errorf("node %s: %w", n.name, err)
}

// time returns about what time it is on the nodes, in microseconds: their median, so that one whose clock is
// wrong, or that has never answered, does not count.
func (b *backend) time() int64 {
	all := make([]int64, len(b.nodes))
	for i, n := range b.nodes {
		all[i] = n.Time()
	}
	slices.Sort(all)
	return all[len(all)/2]
}

package redlock

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/redisnode"
)

// patience is how many node timeouts a request has: it may be this machine that is slow.
const patience = 3

// node is one of the servers.
type node struct {
	*redisnode.Node
	name   string
	silent atomic.Bool // the last request had no answer in time
	tried  atomic.Bool // a request finds out whether it answers again
}

// request makes a request to the node. A silent node without which there is a majority gets one at a time, so that
// they do not pile up.
func (b *backend) request(n *node, f func(ctx context.Context) error) error {
	others := 0
	for _, other := range b.nodes {
		if other != n && !other.silent.Load() {
			others++
		}
	}
	if n.silent.Load() && others >= b.quorum {
		if n.tried.Swap(true) {
			return fmt.Errorf("node %s: does not answer", n.name)
		}
		defer n.tried.Store(false)
	}
	return b.send(n, f)
}

// send makes a request to the node whether it is silent or not, and finds out whether it is.
func (b *backend) send(n *node, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(b.life, patience*b.bound)
	defer cancel()
	err := f(ctx)
	silent := redisnode.TimedOut(err)
	switch before := n.silent.Swap(silent); {
	case silent && !before:
		b.log.Warn("locker: redlock: a node does not answer", "node", n.name, "error", err)
	case before && !silent:
		b.log.Info("locker: redlock: a node answers again", "node", n.name)
	}
	switch {
	case err == nil || err == driver.ErrGone:
		return err
	case ctx.Err() != nil: // the core would take that error for one of its own context
		return fmt.Errorf("node %s: no answer within %v", n.name, patience*b.bound)
	}
	return fmt.Errorf("node %s: %w", n.name, err)
}

// ask calls f for these nodes, all at once. It returns when enough says so, which is asked after each, when all
// are done, when ctx has ended, or after the node timeout if a majority is done. The others go on in the
// background.
func (b *backend) ask(ctx context.Context, nodes []int, f func(i int), enough func() bool) {
	answers := make(chan struct{}, len(nodes))
	for _, i := range nodes {
		b.working.Go(func() {
			f(i)
			answers <- struct{}{}
		})
	}
	timeout := time.NewTimer(b.bound)
	defer timeout.Stop()
	late := false
	for done := 0; done < len(nodes) && !enough() && !(late && done >= b.quorum); {
		select {
		case <-answers:
			done++
		case <-timeout.C:
			late = true
		case <-ctx.Done():
			return
		}
	}
}

// all returns the indices of all nodes.
func (b *backend) all() []int {
	all := make([]int, len(b.nodes))
	for i := range all {
		all[i] = i
	}
	return all
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

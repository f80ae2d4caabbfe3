package redlock

import (
	"slices"
	"time"
)

// spreadAfter is how long a lock is on a majority of the nodes and no more: what is released before
// costs 6 requests to five nodes instead of 10.
const spreadAfter = time.Millisecond

// spread has a lock that is held for longer taken on the other nodes, too, so that it stays when
// some of the majority die.
func (b *backend) spread(c *claim) {
	token := b.time() + lead
	held := b.holds(c)
	for i, v := range c.votes {
		if !slices.Contains(held, i) && !b.leftOut(v.node) {
			b.working.Go(func() { b.askNode(c, v, token, false, false) })
		}
	}
}

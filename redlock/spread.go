package redlock

import "time"

// spreadAfter is how long a lock is on a majority of the nodes and no more: what is released before
// costs 6 requests to five nodes instead of 10. To ask only a majority first is worth a third of the
// rate alone and with 16 clients where all nodes are on one machine.
const spreadAfter = time.Millisecond

// spread has a lock that is held for longer taken on the other nodes, too, so that it stays when
// some of the majority die.
func (b *backend) spread(c *claim) {
	first, rest := b.order(c.Name)
	now := b.clock.Now()
	for _, i := range append(first, rest...) {
		v := c.votes[i]
		c.mu.Lock()
		ask := !v.counts(now) && !c.over
		c.mu.Unlock()
		if ask {
			b.working.Go(func() { b.askNode(c, v, question{token: b.time() + lead}) })
		}
	}
}

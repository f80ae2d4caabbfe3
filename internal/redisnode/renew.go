package redisnode

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// batch is how many holdings one script looks at: the server is kept from others for about a tenth
// of a millisecond.
const batch = 64

// Renewal is what the server said of a holding.
type Renewal struct {
	// Held: the claim holds the name, for Left more from Sent, before which the request was not
	// sent.
	Held bool
	Sent driver.Instant
	Left time.Duration
	// Waiting is how many wait for the name.
	Waiting int64
}

// Renew confirms the holdings of claims, and lengthens those that are no leases. It calls report
// once for each, from one goroutine at a time. In a Cluster each server is asked by itself, so that
// one that hangs does not keep the others waiting.
func (n *Node) Renew(ctx context.Context, claims []*Claim, report func(*Claim, Renewal, error)) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, batches := range n.batches(ctx, claims) {
		all.Go(func() {
			for _, claims := range batches {
				n.renew(ctx, claims, true, func(c *Claim, r Renewal, err error) {
					mu.Lock()
					defer mu.Unlock()
					report(c, r, err)
				})
			}
		})
	}
	all.Wait()
}

// batches divides the claims into batches, in a Cluster each of one bucket, and these by the server
// to ask.
func (n *Node) batches(ctx context.Context, claims []*Claim) map[string][][]*Claim {
	buckets := make(map[string][]*Claim)
	for _, c := range claims {
		key := ""
		if n.cluster != nil {
			key = c.clock
		}
		buckets[key] = append(buckets[key], c)
	}
	all := make(map[string][][]*Claim)
	for key, claims := range buckets {
		server := ""
		if n.cluster != nil {
			if master, err := n.cluster.MasterForKey(ctx, key); err == nil {
				server = master.Options().Addr
			}
		}
		all[server] = slices.AppendSeq(all[server], slices.Chunk(claims, batch))
	}
	return all
}

// renew runs renew.lua for one batch, with the queues or without.
func (n *Node) renew(ctx context.Context, claims []*Claim, queues bool, report func(*Claim, Renewal, error)) {
	args := make([]any, 0, 1+4*len(claims))
	args = append(args, 2*len(claims))
	for _, c := range claims {
		queue := c.queue
		if !queues {
			queue = c.lock // in which nobody waits
		}
		args = append(args, c.lock, queue)
	}
	for _, c := range claims {
		ttl := millis(c.TTL)
		if c.Lease {
			ttl = 0
		}
		args = append(args, c.ID, ttl)
	}
	sent := n.clock.Now()
	v, _, err := n.run(ctx, n.scripts.renew, claims[0].lock, args)
	if Word(err) == "TRYAGAIN" && queues {
		// The slot is being moved. What is on one key still works.
		for _, c := range claims {
			n.renew(ctx, []*Claim{c}, false, report)
		}
		return
	}
	list, _ := v.([]any)
	for i, c := range claims {
		r := Renewal{Sent: sent}
		if err == nil && len(list) > 2*i+1 {
			left, _ := list[2*i].(int64)
			r.Held, r.Left = left >= 0, time.Duration(left)*time.Millisecond
			r.Waiting, _ = list[2*i+1].(int64)
		}
		report(c, r, err)
	}
}

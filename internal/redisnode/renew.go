package redisnode

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

const (
	// batch is how many holdings one script looks at: the server is kept from others for some
	// tenths of a millisecond.
	batch = 64
	// burst is how many scripts are sent in one go.
	burst = 32
)

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
			for some := range slices.Chunk(batches, burst) {
				n.renew(ctx, some, true, func(c *Claim, r Renewal, err error) {
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

// renew runs renew.lua for each of the batches, all in one go, with the queues or without.
func (n *Node) renew(ctx context.Context, batches [][]*Claim, queues bool, report func(*Claim, Renewal, error)) {
	sent := n.clock.Now()
	cmds := n.sendAll(ctx, batches, queues, false)
	for i, claims := range batches {
		err := cmds[i].Err()
		if Word(err) == "NOSCRIPT" {
			cmds[i] = n.sendAll(ctx, batches[i:i+1], queues, true)[0]
			err = cmds[i].Err()
		}
		if Word(err) == "TRYAGAIN" && queues {
			// The slot is being moved. What is on one key still works.
			n.renew(ctx, slices.Collect(slices.Chunk(claims, 1)), false, report)
			continue
		}
		list, _ := cmds[i].Val().([]any)
		for j, c := range claims {
			r := Renewal{Sent: sent}
			if err == nil && len(list) > 2*j+1 {
				left, _ := list[2*j].(int64)
				r.Held, r.Left = left >= 0, time.Duration(left)*time.Millisecond
				r.Waiting, _ = list[2*j+1].(int64)
			}
			report(c, r, err)
		}
	}
}

func (n *Node) sendAll(ctx context.Context, batches [][]*Claim, queues, byText bool) []once {
	cmds := make([]once, len(batches))
	pipe := n.client.Pipeline()
	for i, claims := range batches {
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
		cmds[i] = n.scripts.renew.call(ctx, args, byText)
		_ = pipe.Process(ctx, cmds[i])
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	return cmds
}

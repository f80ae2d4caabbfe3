package redisnode

import (
	"context"
	"sync"
	"time"
)

const (
	// batch is how many holdings one script looks at: the server is kept from others for about a
	// tenth of a millisecond.
	batch = 64
	// burst is how many scripts are sent in one go.
	burst = 32
)

// Renewal is what the server said of a holding.
type Renewal struct {
	// Held: the claim holds the name, for Left more from the moment the request was sent.
	Held bool
	Left time.Duration
	// Waiting is how many wait for the name.
	Waiting int64
}

// Renew confirms the holdings of claims, and lengthens those that are no leases. It calls report
// once for each, from one goroutine at a time. In a Cluster each server is asked by itself, so that
// one that hangs does not keep the others waiting.
func (n *Node) Renew(ctx context.Context, claims []*Claim, report func(*Claim, Renewal, error)) {
	var mu sync.Mutex
	tell := func(c *Claim, r Renewal, err error) {
		mu.Lock()
		defer mu.Unlock()
		report(c, r, err)
	}
	var all sync.WaitGroup
	for _, batches := range n.batches(ctx, claims) {
		all.Go(func() {
			for len(batches) > 0 {
				next := min(burst, len(batches))
				n.renew(ctx, batches[:next], tell)
				batches = batches[next:]
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
		for len(claims) > batch {
			all[server] = append(all[server], claims[:batch])
			claims = claims[batch:]
		}
		all[server] = append(all[server], claims)
	}
	return all
}

// renew sends the batches in one go.
func (n *Node) renew(ctx context.Context, batches [][]*Claim, report func(*Claim, Renewal, error)) {
	cmds := n.send(ctx, batches, false)
	for i, claims := range batches {
		if Word(cmds[i].Err()) == "NOSCRIPT" {
			cmds[i] = n.send(ctx, batches[i:i+1], true)[0]
		}
		err := cmds[i].Err()
		if Word(err) == "TRYAGAIN" && len(claims) > 1 {
			// The slot is being moved. What is on the keys of one name still works.
			for _, c := range claims {
				n.renew(ctx, [][]*Claim{{c}}, report)
			}
			continue
		}
		list, _ := cmds[i].Val().([]any)
		for j, c := range claims {
			var r Renewal
			if err == nil && len(list) > 2*j+1 {
				left, _ := list[2*j].(int64)
				r.Held, r.Left = left >= 0, time.Duration(left)*time.Millisecond
				r.Waiting, _ = list[2*j+1].(int64)
			}
			report(c, r, err)
		}
	}
}

func (n *Node) send(ctx context.Context, batches [][]*Claim, byText bool) []once {
	cmds := make([]once, len(batches))
	for i, claims := range batches {
		args := make([]any, 0, 1+4*len(claims))
		args = append(args, 2*len(claims))
		for _, c := range claims {
			args = append(args, c.lock, c.queue)
		}
		for _, c := range claims {
			ttl := millis(c.TTL)
			if c.Lease {
				ttl = 0
			}
			args = append(args, c.ID, ttl)
		}
		cmds[i] = n.scripts.renew.call(ctx, args, byText)
	}
	if len(cmds) == 1 {
		_ = n.client.Process(ctx, cmds[0])
		return cmds
	}
	pipe := n.client.Pipeline()
	for _, cmd := range cmds {
		_ = pipe.Process(ctx, cmd)
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	return cmds
}

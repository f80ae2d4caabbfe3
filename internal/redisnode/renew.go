package redisnode

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// batch is how many holdings one script looks at: the server is kept from others for some tenths of a
// millisecond.
const batch = 64

// atOnce is how many such scripts run at the same time. More would wait for a connection, and fail when that takes too long.
const atOnce = 8

// report is how a renewal tells of one claim; see [driver.Driver].
type report = func(*driver.Claim, driver.Instant, error)

// Renew implements [driver.Driver].
func (n *Node) Renew(ctx context.Context, claims []*driver.Claim, report report) {
	buckets := make(map[string][]*driver.Claim)
	for _, c := range claims {
		bucket := ""
		if n.cluster != nil {
			bucket = n.keys.tag(c.Name) // all keys of a script have to be in one slot
		}
		buckets[bucket] = append(buckets[bucket], c)
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, claims := range buckets { // each has its own turns: a server of a Cluster that does not answer delays no other
		turns := make(chan struct{}, atOnce)
		for some := range slices.Chunk(claims, batch) {
			all.Go(func() {
				turns <- struct{}{}
				defer func() { <-turns }()
				n.renew(ctx, some, true, func(c *driver.Claim, until driver.Instant, err error) {
					mu.Lock()
					defer mu.Unlock()
					report(c, until, err)
				})
			})
		}
	}
	all.Wait()
}

// renew runs renew.lua for some claims. It asks how many wait only with queues.
func (n *Node) renew(ctx context.Context, claims []*driver.Claim, queues bool, report report) {
	var keys []string
	var args []any
	for _, dc := range claims {
		c := n.opts.At(dc)
		queue, ttl := c.queue, millis(c.TTL)
		if !queues {
			queue = c.lock // in which nobody waits
		}
		if c.Lease {
			ttl = 0
		}
		keys, args = append(keys, c.lock, queue), append(args, c.ID, ttl)
	}
	sent := n.clock.Now()
	answer, _, err := n.run(ctx, n.scripts.renew, keys, args...)
	if queues && says(err, "TRYAGAIN ") {
		// In a Cluster the slot is being moved. What is on one key still works.
		for _, c := range claims {
			n.renew(ctx, []*driver.Claim{c}, false, report)
		}
		return
	}
	var list []int64
	if err == nil {
		list, err = numbers(answer, 2*len(claims))
	}
	for i, c := range claims {
		switch {
		case err != nil:
			report(c, 0, err)
		case list[2*i] < 0:
			report(c, 0, driver.ErrGone)
		default:
			report(c, sent.Add(min(time.Duration(list[2*i])*time.Millisecond, c.TTL)), nil)
			if list[2*i+1] > 0 && c.Wanted != nil {
				c.Wanted()
			}
		}
	}
}

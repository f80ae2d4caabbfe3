package redlock

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/redisnode"
)

// renewal is what the nodes have said of one holding.
type renewal struct {
	untils []driver.Instant // of the nodes where it is held
	no     int
	errs   []error
	known  bool
}

// Renew implements [driver.Driver]. Each node is asked for the holdings that it has, all in one
// request. What a majority says is reported at once.
func (b *backend) Renew(ctx context.Context, claims []*driver.Claim, report func(*driver.Claim, driver.Instant, error)) {
	var mu sync.Mutex
	all := make(map[*driver.Claim]*renewal, len(claims))
	at := make([][]*redisnode.Claim, len(b.nodes))
	for _, dc := range claims {
		c, r := stateOf(dc), &renewal{}
		all[dc] = r
		c.mu.Lock()
		for i, v := range c.votes {
			if v.held {
				at[i] = append(at[i], v.at)
			} else {
				r.no++
			}
		}
		c.mu.Unlock()
	}
	left := len(claims)
	done := make(chan struct{})
	decide := func(dc *driver.Claim, r *renewal) { // wants mu
		if r.known {
			return
		}
		until, err := driver.Instant(0), error(nil)
		switch {
		case len(r.untils) >= b.quorum:
			slices.Sort(r.untils)
			until = r.untils[len(r.untils)-b.quorum]
		case r.no > len(b.nodes)-b.quorum:
			err = driver.ErrGone
		case len(r.untils)+r.no+len(r.errs) == len(b.nodes):
			err = &QuorumError{Nodes: len(b.nodes), Yes: len(r.untils), No: r.no, Errs: r.errs}
		default:
			return
		}
		r.known = true
		report(dc, until, err)
		if left--; left == 0 {
			close(done)
		}
	}
	heard := func(n *node, c *redisnode.Claim, a redisnode.Renewal, err error) {
		mu.Lock()
		defer mu.Unlock()
		r := all[c.Claim]
		switch {
		case err != nil:
			r.errs = append(r.errs, n.wrap(err))
		case !a.Held:
			r.no++
		default:
			r.untils = append(r.untils, a.Sent.Add(min(a.Left, c.TTL)-coarse))
			if a.Waiting > 0 && c.Wanted != nil {
				c.Wanted()
			}
		}
		decide(c.Claim, r)
	}
	mu.Lock()
	for dc, r := range all {
		decide(dc, r)
	}
	mu.Unlock()
	for i, n := range b.nodes {
		if len(at[i]) == 0 {
			continue
		}
		b.working.Go(func() {
			start := time.Now()
			var last error
			n.Renew(ctx, at[i], func(c *redisnode.Claim, a redisnode.Renewal, err error) {
				last = err
				heard(n, c, a, err)
			})
			b.heard(n, last, time.Since(start) > b.bound)
		})
	}
	select {
	case <-done:
	case <-ctx.Done():
		mu.Lock()
		for _, r := range all {
			r.known = true // nothing is reported any more
		}
		mu.Unlock()
	}
}

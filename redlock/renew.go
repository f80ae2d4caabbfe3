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
	gone   int
	errs   []error
	known  bool
}

// decide returns what is known of the holding, or known not to become known.
func (b *backend) decide(r *renewal) (until driver.Instant, err error, ok bool) {
	n := len(b.nodes)
	switch {
	case len(r.untils) >= b.quorum:
		slices.Sort(r.untils)
		return r.untils[len(r.untils)-b.quorum], nil, true
	case r.gone > n-b.quorum:
		return 0, driver.ErrGone, true
	case len(r.untils)+r.gone+len(r.errs) == n:
		return 0, &QuorumError{Nodes: n, Yes: len(r.untils), No: r.gone, Errs: r.errs}, true
	}
	return 0, nil, false
}

// Renew implements [driver.Driver]. Each node is asked for the holdings that it has, all in one
// request. What a majority says is reported at once.
func (b *backend) Renew(ctx context.Context, claims []*driver.Claim, report func(*driver.Claim, driver.Instant, error)) {
	var mu sync.Mutex
	open := len(claims)
	all := make(map[*driver.Claim]*renewal, open)
	at := make([][]*redisnode.Claim, len(b.nodes))
	for _, dc := range claims {
		c, r := stateOf(dc), &renewal{}
		all[dc] = r
		c.mu.Lock()
		for i, v := range c.votes {
			if v.held {
				at[i] = append(at[i], v.at)
			} else {
				r.gone++
			}
		}
		c.mu.Unlock()
	}
	hear := func(n *node, c *redisnode.Claim, a redisnode.Renewal, err error) {
		mu.Lock()
		defer mu.Unlock()
		r := all[c.Claim]
		switch {
		case err != nil:
			r.errs = append(r.errs, err)
		case !a.Held:
			r.gone++
		default:
			r.untils = append(r.untils, a.Sent.Add(min(a.Left, c.TTL)-coarse))
			if a.Waiting > 0 && c.Wanted != nil {
				c.Wanted()
			}
		}
		if until, err, ok := b.decide(r); ok && !r.known && open > 0 {
			r.known = true
			open--
			report(c.Claim, until, err)
		}
	}
	var nodes []int
	for i := range at {
		if len(at[i]) > 0 {
			nodes = append(nodes, i)
		}
	}
	b.each(ctx, nodes, nil, func(i int) {
		start, last := time.Now(), error(nil)
		b.nodes[i].Renew(ctx, at[i], func(c *redisnode.Claim, a redisnode.Renewal, err error) {
			last = err
			hear(b.nodes[i], c, a, err)
		})
		b.heard(b.nodes[i], time.Since(start), last)
	}, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return open <= 0
	})
	mu.Lock()
	defer mu.Unlock()
	open = 0 // nothing is reported any more
}

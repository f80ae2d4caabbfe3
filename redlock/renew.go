package redlock

import (
	"context"
	"slices"
	"sync"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/redisnode"
)

// renewal is what the nodes have said of one holding: how many hold it, or do not, is in QuorumError.
type renewal struct {
	QuorumError
	untils []driver.Instant // of the nodes where it is held
	known  bool
}

// decide returns what is known of the holding, or known not to become known.
func (b *backend) decide(r *renewal) (until driver.Instant, err error, ok bool) {
	switch {
	case r.Yes >= b.quorum:
		slices.Sort(r.untils)
		return r.untils[r.Yes-b.quorum], nil, true
	case r.No > r.Nodes-b.quorum:
		return 0, driver.ErrGone, true
	}
	return 0, &r.QuorumError, r.Yes+r.No+len(r.Errs) == r.Nodes
}

// Renew implements [driver.Driver]. Each node is asked for the holdings that it has, all in one request. What a
// majority says is reported at once.
func (b *backend) Renew(ctx context.Context, claims []*driver.Claim, report func(*driver.Claim, driver.Instant, error)) {
	var mu sync.Mutex
	open := len(claims)
	all := make(map[*driver.Claim]*renewal, open)
	at := make([][]*redisnode.Claim, len(b.nodes))
	for _, dc := range claims {
		c, r := stateOf(dc), &renewal{QuorumError: QuorumError{Nodes: len(b.nodes)}}
		all[dc] = r
		c.mu.Lock()
		for i, v := range c.votes {
			switch {
			case v.said.Granted:
				at[i] = append(at[i], v.at)
			case v.err != nil:
				r.Errs = append(r.Errs, v.err)
			default:
				r.No++
			}
		}
		c.mu.Unlock()
	}
	hear := func(c *redisnode.Claim, until driver.Instant, err error) {
		mu.Lock()
		defer mu.Unlock()
		r := all[c.Claim]
		switch err {
		case nil:
			r.Yes, r.untils = r.Yes+1, append(r.untils, until)
		case driver.ErrGone:
			r.No++
		default:
			r.Errs = append(r.Errs, err)
		}
		if until, err, ok := b.decide(r); ok && !r.known && open > 0 {
			r.known = true
			open--
			report(c.Claim, until, err)
		}
	}
	nodes := slices.DeleteFunc(b.all(), func(i int) bool { return len(at[i]) == 0 })
	answers := make(chan struct{}, len(nodes))
	for _, i := range nodes {
		b.working.Go(func() {
			heard := 0
			// Silent nodes are asked, too: a few requests at most, and it may be this machine that was slow.
			err := b.send(b.nodes[i], func(ctx context.Context) (err error) {
				b.nodes[i].Renew(ctx, at[i], func(c *redisnode.Claim, until driver.Instant, said error) {
					err = said
					heard++
					hear(c, until, said)
				})
				return err
			})
			for _, c := range at[i][heard:] {
				hear(c, 0, err) // it was not asked
			}
			answers <- struct{}{}
		})
	}
	undecided := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return open > 0
	}
	for done := 0; done < len(nodes) && undecided() && ctx.Err() == nil; done++ {
		select {
		case <-answers:
		case <-ctx.Done():
		}
	}
	mu.Lock()
	defer mu.Unlock()
	open = 0 // nothing is reported any more
}

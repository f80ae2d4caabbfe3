package redlock

import (
	"context"
	"math"
	"sync"

	"github.com/seed80cd6120/locker/driver"
)

// renewal is what the nodes have said of one holding: which of them hold it, and until when these do at least.
type renewal struct {
	votes
	until driver.Instant
}

// Renew implements [driver.Driver]. Each node is asked for all holdings in one request. What a majority says of a
// holding is reported at once. Silent nodes are asked, too: a few requests at most, and it may be this machine
// that was slow.
func (b *backend) Renew(ctx context.Context, claims []*driver.Claim, report func(*driver.Claim, driver.Instant, error)) {
	var mu sync.Mutex
	open := make(map[*driver.Claim]*renewal, len(claims)) // those of which no majority has said anything
	for _, dc := range claims {
		open[dc] = &renewal{b.unheard(), math.MaxInt64}
	}
	hear := func(i int, dc *driver.Claim, until driver.Instant, vote error) {
		mu.Lock()
		defer mu.Unlock()
		r := open[dc]
		if r == nil || settled(r.votes[i]) {
			return
		}
		if r.votes[i] = vote; vote == nil {
			r.until = min(r.until, until)
		}
		switch yes, no := r.count(); {
		case yes >= b.quorum:
			delete(open, dc)
			report(dc, r.until, nil)
		case no > len(b.nodes)-b.quorum:
			delete(open, dc)
			report(dc, 0, driver.ErrGone)
		}
	}
	b.ask(ctx, func(i int) error {
		err := b.send(b.nodes[i], func(ctx context.Context) (err error) {
			b.nodes[i].Renew(ctx, claims, func(dc *driver.Claim, until driver.Instant, vote error) {
				if settled(vote) {
					hear(i, dc, until, vote)
				} else {
					err = vote
				}
			})
			return err
		})
		if err != nil {
			for _, dc := range claims {
				hear(i, dc, 0, err) // those that it has not confirmed
			}
		}
		return err
	}, func(int, int, bool) bool {
		mu.Lock()
		defer mu.Unlock()
		return len(open) == 0
	})
	mu.Lock()
	defer mu.Unlock()
	for dc, r := range open {
		report(dc, 0, r.failure())
	}
	clear(open) // nothing is reported any more
}

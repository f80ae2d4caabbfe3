package redlock

import (
	"context"
	"math"
	"sync"

	"github.com/seed80cd6120/locker/driver"
)

// renewal is how many nodes have said that a claim holds its name, and how many that it does not, and until when the
// former hold it at least.
type renewal struct {
	yes, no int
	until   driver.Instant
}

// Renew implements [driver.Driver]. Each node is asked for all holdings in one request. What a majority says of a
// holding is reported at once. Silent nodes are asked, too: a few requests at most, and it may be this machine
// that was slow.
func (b *backend) Renew(ctx context.Context, claims []*driver.Claim, report func(*driver.Claim, driver.Instant, error)) {
	var mu sync.Mutex
	open := make(map[*driver.Claim]*renewal, len(claims)) // those of which no majority has said anything
	for _, dc := range claims {
		open[dc] = &renewal{until: math.MaxInt64}
	}
	hear := func(dc *driver.Claim, until driver.Instant, vote error) {
		mu.Lock()
		defer mu.Unlock()
		r := open[dc]
		switch {
		case r == nil:
			return
		case vote == nil:
			r.yes, r.until = r.yes+1, min(r.until, until)
		default:
			r.no++
		}
		switch {
		case r.yes >= b.quorum:
			delete(open, dc)
			report(dc, r.until, nil)
		case r.no > len(b.nodes)-b.quorum:
			delete(open, dc)
			report(dc, 0, driver.ErrGone)
		}
	}
	said := b.ask(ctx, func(i int) error {
		return b.send(b.nodes[i], func(ctx context.Context) (err error) {
			b.nodes[i].Renew(ctx, claims, func(dc *driver.Claim, until driver.Instant, vote error) {
				if settled(vote) {
					hear(dc, until, vote)
				} else {
					err = vote
				}
			})
			return err
		})
	}, func(int, int, bool) bool {
		mu.Lock()
		defer mu.Unlock()
		return len(open) == 0
	})
	mu.Lock()
	defer mu.Unlock()
	for dc, r := range open {
		failure := b.failure(said)
		failure.Yes, failure.No = r.yes, r.no
		report(dc, 0, failure)
	}
	clear(open) // nothing is reported any more
}

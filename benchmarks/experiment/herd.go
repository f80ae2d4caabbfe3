package experiment

import (
	"context"
	"fmt"
	"time"

	"github.com/seed80cd6120/locker/benchmarks/contender"
)

// calm is how long after the next holder has the lock requests still count as caused by
// the release.
const calm = 100 * time.Millisecond

func herd() Experiment {
	return Experiment{
		Name:     "herd",
		Title:    "The herd",
		Question: "How many are woken by one release?",
		Method: "Waiters queue behind a holder. It releases, one of them gets the lock and keeps it. Counted are the requests from the release until a tenth of a second after " +
			"the next holder had the lock; and at a second release, which is also timed, the messages that the servers sent unasked. " +
			"The naive recipes of the articles are there to show the herd: in one all waiters watch one node, in the other all watch the list of the queue.",
		Metrics: []Metric{
			{Name: "requests", Better: -1, Plot: true, Meaning: "requests caused by one release"},
			{Name: "notifications", Better: -1, Plot: true, Meaning: "messages sent by the servers unasked, to within a few"},
			{Name: "hand-over", Unit: "ms", Better: -1, Meaning: "from the call of Release to the next holder having the lock"},
		},
		Cases: func(d Depth) []Case {
			// With a TTL of a minute nobody has to keep a session alive meanwhile.
			waiters := func(n int) Case { return Case{Name: fmt.Sprintf("%d waiters", n), N: n, TTL: time.Minute} }
			if d != Full {
				return []Case{waiters(100)}
			}
			many := waiters(1000)
			many.Times = 1
			return []Case{waiters(10), waiters(100), many}
		},
		Repeat: func(d Depth) int { return pick(d, 1, 1, 2) },
		Fits: func(d Depth, c contender.Contender, k Case) bool {
			if c.Role == contender.Exhibit {
				return c.Setup.Service == contender.ZooKeeper && !c.Traits.Shared
			}
			if s := c.Setup.Service; s == contender.Postgres || s == contender.MariaDB { // which do not count what they send unasked
				return false
			}
			return distributed(d, c, k) && (c.Setup.Nodes != 3 || d == Full && k.N == 100)
		},
		Do: doHerd,
	}
}

func doHerd(ctx context.Context, c *Cell) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	n := c.Case.N
	clients, err := c.OpenN(ctx, n+1)
	if err != nil {
		return err
	}
	q, err := c.lineUp(ctx, clients[n], clients[:n], 0)
	if err != nil {
		return err
	}
	defer q.leave()

	var second turn
	requests, err := c.Site.Requests(ctx, func() (err error) {
		if err := q.held.Release(ctx); err != nil {
			return err
		}
		if second, err = q.soon(ctx); err != nil {
			return err
		}
		return pause(ctx, calm)
	})
	if err != nil {
		return err
	}
	c.Put("requests", float64(requests))
	if err := c.settle(ctx, n); err != nil {
		return err
	}

	notifications, err := c.Site.Notifications(ctx, func() error {
		start := time.Now()
		if err := second.release(ctx); err != nil {
			return err
		}
		third, err := q.soon(ctx)
		if err != nil {
			return err
		}
		c.Put("hand-over", millis(third.at.Sub(start)))
		return pause(ctx, calm)
	})
	if err != nil {
		return err
	}
	c.Put("notifications", float64(notifications))
	return nil // the others go without a turn
}

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
			{Name: "requests", Better: -1, Meaning: "requests caused by one release"},
			{Name: "notifications", Better: -1, Meaning: "messages sent by the servers unasked, to within a few"},
			{Name: "hand-over", Unit: "ms", Better: -1, Meaning: "from the call of Release to the next holder having the lock"},
		},
		Cases: func(d Depth) []Case {
			// With a TTL of a minute nobody has to keep a session alive meanwhile.
			waiters := func(n int) Case { return Case{Name: fmt.Sprintf("%d waiters", n), N: n, TTL: time.Minute} }
			if d != Full {
				return []Case{waiters(d.smaller(100))}
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
			return distributed(d, c, k) && c.Setup.CountsMessages() && (c.Setup.Nodes != 3 || d == Full && k.N == 100)
		},
		Do: doHerd,
	}
}

func doHerd(ctx context.Context, c *Cell) error {
	n := c.Case.N
	clients, err := c.OpenN(ctx, n+1)
	if err != nil {
		return err
	}
	q, err := c.lineUp(ctx, clients[n], clients[:n], 0)
	if err != nil {
		return err
	}
	defer q.leave() // most without a turn

	// handOver releases the lock and returns the next who has it, when all that this causes is over.
	handOver := func(release func(context.Context) error) (next turn, err error) {
		if err = release(ctx); err == nil {
			next, err = q.soon(ctx)
		}
		if err == nil {
			err = contender.Pause(ctx, calm)
		}
		return next, err
	}
	var second, third turn
	requests, err := c.Site.Requests(ctx, func() (err error) {
		second, err = handOver(q.held.Release)
		return err
	})
	if err != nil {
		return err
	}
	if err := c.settle(ctx, n); err != nil {
		return err
	}
	var start time.Time
	notifications, err := c.Site.Notifications(ctx, func() (err error) {
		start = time.Now()
		third, err = handOver(second.release)
		return err
	})
	if err != nil {
		return err
	}
	c.PutCount("requests", requests)
	c.PutCount("notifications", notifications)
	c.Put("hand-over", millis(third.at.Sub(start)))
	return nil
}

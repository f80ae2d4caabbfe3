package experiment

import (
	"context"
	"fmt"
	"time"

	"github.com/seed80cd6120/locker/benchmarks/contender"
)

func waiting() Experiment {
	return Experiment{
		Name:     "waiting",
		Title:    "Waiting",
		Question: "What do those cost who only wait? (Polling against watching.)",
		Method: "One client holds the name, the others wait for it and nothing happens. " +
			"The client's CPU is measured first, the requests (with whatever keeps sessions and leases alive) after it. " +
			"Then the holder lets go, everybody has a turn and releases at once, and the requests until the last one has had it are counted.",
		Metrics: []Metric{
			{Name: "requests", Unit: "/s", Better: -1, Meaning: "requests at the servers from all waiters together"},
			{Name: "requests per waiter", Unit: "/s", Better: -1, Meaning: "the same for each"},
			{Name: "CPU", Unit: "ms/s", Better: -1, Meaning: "of the process that waits, all waiters together"},
			{Name: "drain", Better: -1, Meaning: "requests for each waiter, from the release until all have had their turn"},
			{Name: "drain time", Unit: "ms", Better: -1, Meaning: "how long that took"},
		},
		Cases: func(d Depth) []Case {
			shared := Case{Name: "100 " + oneClient, N: 100, How: oneClient}
			if d != Full {
				return []Case{{Name: "100 clients", N: 100}, shared}
			}
			return []Case{{Name: "1 client", N: 1}, {Name: "10 clients", N: 10}, {Name: "100 clients", N: 100}, {Name: "1000 clients", N: 1000}, shared}
		},
		Repeat: func(d Depth) int { return pick(d, 1, 1, 3) },
		Fits: func(d Depth, c contender.Contender, k Case) bool {
			if k.How == oneClient {
				// Two goroutines of one etcd session do not exclude each other, so
				// there is nobody who waits.
				return distributed(d, c, k) && c.Role == contender.Ours && (d == Full || c.Setup.Nodes == 1)
			}
			return distributed(d, c, k) && (d == Full || c.Setup.Nodes != 3)
		},
		Do: doWaiting,
	}
}

func doWaiting(ctx context.Context, c *Cell) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	name, n := c.LockName(), c.Case.N
	holder, err := c.Open(ctx)
	if err != nil {
		return err
	}
	held, err := holder.Acquire(ctx, name)
	if err != nil {
		return fmt.Errorf("first holder: %w", err)
	}
	clients, err := c.crowd(ctx)
	if err != nil {
		return err
	}
	q := newQueue(n)
	defer q.wg.Wait()
	defer cancel()
	for i, client := range clients {
		q.join(ctx, client, name, i)
	}
	if err := settle(ctx, n); err != nil {
		return err
	}

	window := pick(c.Depth, time.Second, time.Second, 5*time.Second)
	start, used := time.Now(), cpuTime()
	if err := pause(ctx, window); err != nil {
		return err
	}
	c.Put("CPU", millis(cpuTime()-used)/time.Since(start).Seconds())

	start = time.Now()
	requests, err := c.Site.Requests(ctx, func() error { return pause(ctx, window) })
	if err != nil {
		return err
	}
	rate := float64(requests) / time.Since(start).Seconds()
	c.Put("requests", rate)
	c.Put("requests per waiter", rate/float64(n))

	var took time.Duration
	requests, err = c.Site.Requests(ctx, func() error {
		q.hurry()
		start := time.Now()
		if err := held.Release(ctx); err != nil {
			return err
		}
		for range n {
			if _, err := q.next(ctx); err != nil {
				return err
			}
		}
		took = time.Since(start)
		return nil
	})
	if err != nil {
		return err
	}
	c.Put("drain", float64(requests)/float64(n))
	c.Put("drain time", millis(took))
	return nil
}

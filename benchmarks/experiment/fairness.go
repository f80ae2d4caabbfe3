package experiment

import (
	"context"
	"time"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/measure"
)

func fairness() Experiment {
	return Experiment{
		Name:     "fairness",
		Title:    "Fairness",
		Question: "Does the lock go to those who asked first?",
		Method:   "Clients queue one after another behind a holder, 20 ms apart. Then it lets go, each holds the lock for 2 ms, and the order of the grants is compared with that of arrival.",
		Metrics: []Metric{
			{Name: "out of order", Unit: "%", Better: -1, Meaning: "pairs of clients served in the wrong order: 0 is the order of arrival, about 50 is chance"},
			{Name: "overtaken", Better: -1, Meaning: "by how many later arrivals the unluckiest was overtaken"},
			{Name: "longest wait", Unit: "ms", Better: -1, Meaning: "from the first release until the last had its turn"},
		},
		Cases:  func(Depth) []Case { return []Case{{Name: "24 clients", N: 24}} },
		Repeat: func(d Depth) int { return pick(d, 1, 1, 3) },
		Fits:   lessReplicated,
		Do:     doFairness,
	}
}

func doFairness(ctx context.Context, c *Cell) error {
	n := c.Case.N
	clients, err := c.OpenN(ctx, n+1)
	if err != nil {
		return err
	}
	apart := 20 * time.Millisecond
	if c.Depth == Smoke { // where a machine that has much else to do must not change their order
		apart *= 5
	}
	q, err := c.lineUp(ctx, clients[n], clients[:n], apart)
	if err != nil {
		return err
	}
	defer q.leave()
	start := time.Now()
	if err := q.held.Release(ctx); err != nil {
		return err
	}
	var served []int
	for range n {
		t, err := q.soon(ctx)
		if err == nil {
			served = append(served, t.waiter)
			if err = contender.Pause(ctx, 2*time.Millisecond); err == nil {
				err = t.release(ctx)
			}
		}
		if err != nil {
			return err
		}
	}
	share, overtaken := measure.Inversions(served)
	c.Put("out of order", 100*share)
	c.PutCount("overtaken", int64(overtaken))
	c.Put("longest wait", millis(time.Since(start)))
	return nil
}

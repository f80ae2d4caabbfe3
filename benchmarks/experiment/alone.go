package experiment

import (
	"context"
	"runtime"
	"slices"
	"time"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/measure"
)

func alone() Experiment {
	return Experiment{
		Name:     "alone",
		Title:    "Alone",
		Question: "What does a lock cost when nobody else wants it? Is ZooKeeper slower than Redis, since every create and delete goes through the leader to its followers?",
		Method:   "One client takes and releases one name again and again. Requests are counted in a pass of their own, which is not timed, in the first repetitions only.",
		Metrics: slices.Concat(
			[]Metric{{Name: "rate", Unit: "/s", Better: 1, Meaning: "acquire and release, pairs a second"}},
			latency("acquire+release", "one pair"),
			[]Metric{{Name: "requests", Better: -1, Meaning: "requests at the servers for one pair, over all nodes"}}),
		Cases: func(Depth) []Case { return []Case{{}} },
		// Short and many: what else the machine does then hits a few of them, and not
		// the median of their ratios.
		Repeat: func(d Depth) int { return pick(d, 6, 8, 48) },
		Fits: func(d Depth, c contender.Contender, _ Case) bool {
			if hangs(c) && d != Full {
				return false
			}
			if d == Short && (c.Setup.Variant == contender.NoSync || c.Setup.Nodes == 3 && c.Role != contender.Ours) {
				return false
			}
			return c.Role != contender.Exhibit || onRedis(c)
		},
		Crowds: true,
		Do:     doAlone,
	}
}

// hangs reports whether a contender waits five seconds in each call for a server that
// does not answer.
func hangs(c contender.Contender) bool {
	return c.Role == contender.Rival && c.Setup.Variant == contender.BlackHole
}

func doAlone(ctx context.Context, c *Cell) error {
	window := c.Depth.window(pick(c.Depth, 150*time.Millisecond, 120*time.Millisecond, 300*time.Millisecond))
	if c.Contender.OpenCrowd != nil {
		return c.compete(ctx, contest{warm: untimed, window: window}, c.Rep < countedReps)
	}
	client, err := c.Open(ctx)
	if err != nil {
		return err
	}
	name := c.LockName()
	pair := func() error { return use(ctx, client, name) }
	rested, counted := 30*time.Millisecond, 50 // a server that had nothing to do is slow at first
	if hangs(c.Contender) {
		rested, counted = 0, 1
	}
	for start := time.Now(); time.Since(start) < rested; {
		if err := pair(); err != nil {
			return err
		}
	}
	if c.Rep < countedReps {
		requests, err := c.Site.Requests(ctx, func() error {
			for range counted {
				if err := pair(); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		c.Put("requests", float64(requests)/float64(counted))
	}

	h := measure.NewHistogram()
	runtime.GC()
	start := time.Now()
	for last := start; last.Sub(start) < window; {
		if err := pair(); err != nil {
			return err
		}
		now := time.Now()
		h.Record(now.Sub(last))
		last = now
	}
	c.Put("rate", float64(h.Count())/time.Since(start).Seconds())
	c.PutLatency("acquire+release", h)
	return nil
}

// use takes a name and gives it back.
func use(ctx context.Context, client contender.Client, name string) error {
	held, err := client.Acquire(ctx, name)
	if err != nil {
		return err
	}
	return held.Release(ctx)
}

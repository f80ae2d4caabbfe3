package experiment

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/seed80cd6120/locker/benchmarks/contender"
)

func delay() Experiment {
	return Experiment{
		Name:     "delay",
		Title:    "Over a network",
		Question: "What would it cost me, where the servers are not on my machine?",
		Method: "The servers stand behind a proxy that has every round trip take longer: 0.2 ms is a network within a zone, 1 ms one between zones, 5 ms one between near regions. " +
			"One client takes a free name and gives it back; then 16 clients take one name in turn.",
		Metrics: append([]Metric{
			{Name: "rate", Unit: "/s", Better: 1, Plot: true, Meaning: "acquisitions a second, of all clients together"},
		}, append(latency("acquire", "from asking to holding"),
			Metric{Name: "round trips", Better: -1, Plot: true, Meaning: "the time from one acquisition to the next, divided by that of a round trip of the network"},
			Metric{Name: "two inside", Better: -1, Meaning: "how often somebody got the lock while another held it"})...),
		Cases: func(depth Depth) []Case {
			delays := []time.Duration{200 * time.Microsecond, time.Millisecond, 5 * time.Millisecond}
			if depth == Smoke {
				delays = delays[2:]
			}
			var all []Case
			for _, n := range []int{1, 16} {
				for _, d := range delays {
					who := "alone"
					if n > 1 {
						who = fmt.Sprintf("%d clients", n)
					}
					all = append(all, Case{Name: fmt.Sprintf("%s, %v ms", who, millis(d)), N: n, Delay: d})
				}
			}
			return all
		},
		Repeat:   func(d Depth) int { return pick(d, 1, 2, 6) },
		Crowds:   true,
		OnDemand: true,
		Fits: func(d Depth, c contender.Contender, k Case) bool {
			return distributed(d, c, k) && (d == Full || c.Setup.Nodes != 3)
		},
		Do: doDelay,
	}
}

func doDelay(ctx context.Context, c *Cell) error {
	delayed, err := c.Site.Delayed(c.Case.Delay)
	if err != nil {
		return err
	}
	defer delayed.Close()
	defer c.close() // before the network
	c.Site = delayed
	t, err := c.delayedTally(ctx, c.Depth.window(time.Second))
	if err != nil {
		return err
	}
	c.Put("rate", t.rate)
	if t.rate > 0 {
		c.Put("round trips", 1/(t.rate*c.Case.Delay.Seconds()))
	}
	c.PutLatency("acquire", t.acquire)
	c.Put("two inside", float64(t.overlaps))
	return nil
}

func (c *Cell) delayedTally(ctx context.Context, window time.Duration) (*tally, error) {
	if c.Contender.OpenCrowd != nil {
		t, _, err := c.crowdTally(ctx, c.Case.N, window, 0)
		return t, err
	}
	clients, err := c.OpenN(ctx, c.Case.N)
	if err != nil {
		return nil, err
	}
	runtime.GC()
	return compete(ctx, clients, c.LockName(), contest{warm: c.Depth.window(untimed), window: window})
}

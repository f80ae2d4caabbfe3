package experiment

import (
	"context"
	"fmt"
	"slices"
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
		Metrics: slices.Concat(
			[]Metric{{Name: "rate", Unit: "/s", Better: 1, Meaning: "acquisitions a second, of all clients together"}},
			latency("acquire", "from asking to holding"),
			[]Metric{
				{Name: "round trips", Better: -1, Meaning: "the time from one acquisition to the next, divided by that of a round trip of the network"},
				{Name: "two inside", Better: -1, Meaning: "how often somebody got the lock while another held it"},
			}),
		Cases: func(depth Depth) (all []Case) {
			delays := []time.Duration{200 * time.Microsecond, time.Millisecond, 5 * time.Millisecond}
			if depth == Smoke {
				delays = delays[2:]
			}
			for _, d := range delays {
				all = append(all, Case{Name: fmt.Sprintf("alone, %v ms", millis(d)), N: 1, Delay: d})
			}
			for _, d := range delays {
				all = append(all, Case{Name: fmt.Sprintf("16 clients, %v ms", millis(d)), N: 16, Delay: d})
			}
			return all
		},
		Repeat:   func(d Depth) int { return pick(d, 1, 2, 6) },
		Crowds:   true,
		OnDemand: true,
		Fits: func(d Depth, c contender.Contender, k Case) bool {
			return lessReplicated(d, c, k) && !c.Setup.Local()
		},
		Do: func(ctx context.Context, c *Cell) error {
			return c.compete(ctx, contest{warm: untimed, window: time.Second}, false)
		},
	}
}

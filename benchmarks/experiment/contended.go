package experiment

import (
	"context"
	"slices"
	"time"

	"github.com/seed80cd6120/locker/benchmarks/contender"
)

const oneClient = "goroutines of one client"

func contended() Experiment {
	return Experiment{
		Name:     "contended",
		Title:    "Contended",
		Question: "How fast does a lock go from hand to hand, and does everybody get the same of it?",
		Method: "Each client takes the name and gives it back at once, as often as it can. The first tenth of a second, in which they connect, is not measured; the time until each had the lock once is a figure of its own. " +
			"Separate clients have connections of their own but live in one process, so that one clock times them all; goroutines of one client share its connections. " +
			"Requests are counted in a pass of their own, which is not timed, in the first repetitions only.",
		Metrics: slices.Concat(
			[]Metric{{Name: "rate", Unit: "/s", Better: 1, Meaning: "acquisitions a second, of all clients together"}},
			latency("acquire", "from asking to holding"),
			latency("hand-over", "from the call of Release to the next holder having it"),
			[]Metric{
				{Name: "requests", Better: -1, Meaning: "requests at the servers for one acquisition and its release"},
				{Name: "unluckiest", Better: 1, Minor: true, Meaning: "share of the client that got least, 1 being an equal share"},
				{Name: "luckiest", Better: -1, Minor: true, Meaning: "share of the client that got most"},
				{Name: "largest/smallest", Better: -1, Meaning: "the one share divided by the other"},
				{Name: "all once", Unit: "ms", Better: -1, Minor: true, Meaning: "from the start, when nobody is connected yet, until each client had the lock once; nothing if one had to wait until the end"},
				{Name: "two inside", Better: -1, Meaning: "how often somebody got the lock while another held it"},
				{Name: "stuck", Better: -1, Meaning: "clients that still waited two seconds after the lock had been free for the last time"},
			}),
		Cases: func(d Depth) []Case {
			sixteen := Case{Name: "16 clients", N: 16}
			far := Case{Name: "16 clients, 1 ms of network", N: 16, Delay: time.Millisecond, Times: pick(d, 2, 4, 4)}
			shared := Case{Name: "16 " + oneClient, N: 16, How: oneClient}
			if d != Full {
				return []Case{sixteen, far, shared}
			}
			return []Case{{Name: "2 clients", N: 2, Times: 4}, sixteen, far, {Name: "64 clients", N: 64, Times: 4}, shared}
		},
		Repeat: func(d Depth) int { return pick(d, 2, 4, 12) },
		Crowds: true,
		InTurn: true, // the goroutines of one client are compared with separate clients
		Fits: func(d Depth, c contender.Contender, k Case) bool {
			if k.Delay > 0 && (c.Setup.Local() || d != Full && c.Setup != contender.Redis1) {
				return false
			}
			if d != Full && k.How == oneClient && (c.Role == contender.Exhibit || c.Role == contender.Rival && c.Family != "etcd.Mutex" || c.Setup.Nodes == 3) {
				return false // shows nothing that separate clients do not
			}
			if d == Short && (c.Aside || c.Setup.Variant == contender.NoSync || c.Setup.Nodes == 3 && c.Role != contender.Ours) {
				return false
			}
			return c.Traits.Waits && (c.Role != contender.Exhibit || onRedis(c)) && c.Setup.Variant != contender.BlackHole
		},
		Do: func(ctx context.Context, c *Cell) error {
			counted := c.Rep == 0 || c.Depth == Full && c.Rep < countedReps
			return c.compete(ctx, contest{warm: untimed, window: 400 * time.Millisecond}, counted)
		},
	}
}

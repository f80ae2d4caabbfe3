package experiment

import (
	"fmt"

	"github.com/seed80cd6120/locker/benchmarks/contender"
)

func manyHeld() Experiment {
	held := scale()
	held.Name = "many-held"
	held.Title = "100,000 names held"
	held.Question = "What does one client cost, and its server, that holds a hundred thousand names?"
	held.Method = "One client takes the names, 32 at a time, and holds them for a little longer than their TTL of 15 s. It is measured as in \"Scale\"."
	held.Metrics = nil
	for _, m := range scale().Metrics {
		if m.Name != "rate" && m.Name != "left behind" && m.Name != "left later" {
			held.Metrics = append(held.Metrics, m)
		}
	}
	held.Cases = func(d Depth) []Case {
		n, ttl := pick(d, 1000, 100000, 100000), pick(d, 3*beat, DefaultTTL, DefaultTTL)
		if d == Smoke {
			n, ttl = 100, smokeTTL
		}
		return []Case{{Name: fmt.Sprintf("%d %s", n, heldAtOnce), N: n, How: heldAtOnce, TTL: ttl}}
	}
	held.OnDemand = true
	held.Fits = func(d Depth, c contender.Contender, k Case) bool {
		return distributed(d, c, k) && c.Traits.Renews && c.Setup.Nodes == 1
	}
	return held
}

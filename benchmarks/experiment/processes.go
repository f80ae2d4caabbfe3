package experiment

import (
	"fmt"

	"github.com/seed80cd6120/locker/benchmarks/contender"
)

func processes() Experiment {
	return Experiment{
		Name:     "processes",
		Title:    "Goroutines in processes",
		Question: "What becomes of the rate as more goroutines in more processes want one name, with and without passing it on within a process?",
		Method: "In each process, so many goroutines share one client, take one name and give it back at once, as often as they can. " +
			"The processes are told together when to begin to count and when to end. Where the case says so, the client passes the name on within its process for up to 5 ms; other libraries have no such option.",
		Metrics: []Metric{
			{Name: "rate", Unit: "/s", Better: 1, Meaning: "acquisitions a second, of all processes together"},
			{Name: "largest/smallest", Better: -1, Meaning: "the largest share of a process, divided by the smallest"},
			{Name: "two inside", Better: -1, Meaning: "times that somebody got the lock while another goroutine of the same process had it"},
		},
		Cases: func(d Depth) []Case {
			if d == Smoke {
				return []Case{{Name: "2 × 4, hand-over", N: 2, Goroutines: 4, HandOver: handOverFor}}
			}
			var all []Case
			for _, n := range pick(d, []int{1, 16}, []int{1, 16}, []int{1, 4, 16}) {
				for _, each := range pick(d, []int{1, 16}, []int{1, 100, 1000}, []int{1, 10, 100, 1000}) {
					of := fmt.Sprintf("%d × %d", n, each)
					all = append(all, Case{Name: of, N: n, Goroutines: each})
					if each > 1 { // one alone has nobody to pass it to
						all = append(all, Case{Name: of + ", hand-over", N: n, Goroutines: each, HandOver: handOverFor})
					}
				}
			}
			return all
		},
		Repeat:   func(d Depth) int { return pick(d, 1, 1, 2) },
		OnDemand: true,
		Fits: func(d Depth, c contender.Contender, k Case) bool {
			return distributed(d, c, k) && c.Setup.Nodes <= 1 && (k.HandOver == 0 || c.Traits.HandOver)
		},
		Do: doProcesses,
	}
}

// Package experiment has what is measured. Each experiment is named after the
// trade-off that it shows and stands in a file of its own; [Run] puts them together.
package experiment

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed80cd6120/locker/benchmarks/contender"
)

// Depth is how thoroughly to measure.
type Depth int

const (
	Smoke Depth = iota // shows that everything works; its rates and times mean nothing
	Quick              // for somebody who is tuning one backend
	Short              // about ten minutes for everything
	Full
)

var depths = [...]string{"smoke", "quick", "short", "full"}

func (d Depth) String() string { return depths[d] }

// MarshalText writes the name.
func (d Depth) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads the name.
func (d *Depth) UnmarshalText(b []byte) error {
	i := slices.Index(depths[:], string(b))
	if i < 0 {
		return fmt.Errorf("%q is none of %s", b, strings.Join(depths[:], ", "))
	}
	*d = Depth(i)
	return nil
}

// pick returns the value for a depth; the smoke form has that of the quick one.
func pick[T any](d Depth, quick, short, full T) T { return [...]T{quick, quick, short, full}[d] }

// smaller returns how many take part, where usual is the number: a fifth of it in the smoke form.
func (d Depth) smaller(usual int) int {
	if d == Smoke {
		return usual / 5
	}
	return usual
}

// window returns how long to measure, or to keep a server busy, where d is usual: a fifth of it in
// the smoke form.
func (d Depth) window(usual time.Duration) time.Duration {
	if d == Smoke {
		return usual / 5
	}
	return usual
}

// Metric is one figure of an experiment.
type Metric struct {
	Name string // in the JSON file and in the tables
	Unit string // "", "/s", "ms", "%", ...
	// Better is 1 if more is better, -1 if less is, 0 if it is neither.
	Better int
	// Meaning is one sentence for the report.
	Meaning string
	// Minor figures are left out of the table in the terminal, which is narrow.
	Minor bool
}

// Case is one setting of an experiment.
type Case struct {
	Name string
	N    int
	TTL  time.Duration
	How  string
	// Delay is what a round trip takes longer than over the loopback.
	Delay time.Duration
	// HandOver is what clients are opened with.
	HandOver time.Duration
	// Writes is how many percent of the acquisitions are exclusive where the others are shared.
	Writes int
	// Goroutines is how many there are in each of N processes.
	Goroutines int
	// Times, if not zero, replaces the experiment's number of repetitions.
	Times int
}

// DefaultTTL is what clients are opened with where a case says nothing else.
const DefaultTTL = 15 * time.Second

// Experiment is one chapter of the comparison.
type Experiment struct {
	Name     string // "alone": for the command line
	Title    string
	Question string // what a reader wants to know
	Method   string // how it was measured
	Metrics  []Metric
	Cases    func(Depth) []Case
	// Repeat is how often each cell is measured; the contenders take turns.
	Repeat func(Depth) int
	// Fits says whether a case makes sense for a contender.
	Fits func(Depth, contender.Contender, Case) bool
	// Together, if not nil, says in which cases the contenders are measured at the
	// same time, because all they do is wait.
	Together func(Depth, Case) bool
	// InTurn: the cases take turns as the contenders do, since they are compared with one
	// another, and the machine is not the same from minute to minute.
	InTurn bool
	// Crowds: it measures what has OpenCrowd instead of Open as well.
	Crowds bool
	// Own: the experiment breaks its servers and starts them itself; Cell.Site is nil.
	Own bool
	// OnDemand: it is run only if it is named, since it takes long.
	OnDemand bool
	// Do measures one cell once.
	Do func(ctx context.Context, c *Cell) error
}

// All returns the experiments in the order of the report.
func All() []Experiment {
	return []Experiment{
		alone(),
		contended(),
		waiting(),
		herd(),
		death(),
		fairness(),
		readers(),
		permits(),
		handOver(),
		failover(),
		scale(),
		shop(),
		delay(),
		readWrite(),
		processes(),
		manyHeld(),
	}
}

// latency returns the two metrics that PutLatency notes.
func latency(metric, meaning string) []Metric {
	return []Metric{
		{Name: metric + " p50", Unit: "ms", Better: -1, Meaning: meaning + ": half of all took at most this"},
		{Name: metric + " p99", Unit: "ms", Better: -1, Meaning: meaning + ": all but one in a hundred took at most this"},
	}
}

// usual leaves out the floors, which cannot wait, and what was made for some
// experiments only.
func usual(_ Depth, c contender.Contender, _ Case) bool {
	return !c.Aside && c.Traits.Waits && c.Setup.Variant == contender.Usual && c.Role != contender.Exhibit
}

// distributed also leaves out what lives in one process.
func distributed(d Depth, c contender.Contender, k Case) bool {
	return usual(d, c, k) && c.Setup != contender.InProcess
}

// lessReplicated also leaves out what stands on three servers, but in the full form.
func lessReplicated(d Depth, c contender.Contender, k Case) bool {
	return distributed(d, c, k) && (d == Full || c.Setup.Nodes != 3)
}

// withReaders is for what has shared locks, exhibits among them.
func withReaders(d Depth, c contender.Contender, _ Case) bool {
	return !c.Aside && c.Traits.Shared && c.Setup != contender.InProcess && c.Setup.Variant == contender.Usual &&
		(d == Full || c.Setup.Nodes != 3)
}

// withoutSessions reports whether the server of a contender knows no sessions that have to be kept alive.
func withoutSessions(c contender.Contender) bool {
	return slices.Contains([]contender.Service{contender.Redis, contender.Postgres, contender.MariaDB}, c.Setup.Service)
}

// onRedis reports whether an exhibit is one that stands beside the rivals on Redis.
func onRedis(c contender.Contender) bool { return c.Setup.Service == contender.Redis }

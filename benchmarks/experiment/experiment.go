// Package experiment has what is measured. Each experiment is named after the
// trade-off that it shows and stands in a file of its own; [Run] puts them together.
package experiment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/measure"
	"github.com/seed80cd6120/locker/benchmarks/site"
)

// Depth is how thoroughly to measure.
type Depth int

const (
	Smoke Depth = iota // shows that everything works; its rates and times mean nothing
	Quick              // for somebody who is tuning one backend
	Short              // about five minutes for everything
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
	// Plot has the report draw it.
	Plot bool
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
	// Most, if not nil, is how often a contender is measured at most, 0 for no limit.
	Most func(contender.Contender) int
	// Fits says whether a case makes sense for a contender.
	Fits func(Depth, contender.Contender, Case) bool
	// Together, if not nil, says in which cases the contenders are measured at the
	// same time, because all they do is wait.
	Together func(Depth, Case) bool
	// Mixed: those cases are measured at the same time, too.
	Mixed bool
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

// Cell is one repetition of one case with one contender.
type Cell struct {
	Experiment *Experiment
	Case       Case
	Contender  contender.Contender
	Rep        int
	Depth      Depth
	Site       *site.Site

	results  *measure.Results
	database string // of the shop
	version  *sync.Map
	mu       sync.Mutex
	clients  []io.Closer
}

var names atomic.Int64

// LockName returns a name that was not used before.
func (c *Cell) LockName() string {
	return fmt.Sprintf("compare/%s/%s/%d", c.Experiment.Name, c.Contender.Name, names.Add(1))
}

// TTL of the clients of this cell. Where waiting is all that happens, those who do not
// renew have one that outlasts it, and those on Redis and on databases, which have no sessions to be kept
// alive, the usual one.
func (c *Cell) TTL() time.Duration {
	ttl := c.Case.TTL
	switch waits := c.Experiment.Name == "waiting"; {
	case waits && !c.Contender.Traits.Renews:
		ttl = 5 * time.Minute
	case ttl == 0, waits && withoutSessions(c.Contender):
		ttl = DefaultTTL
	}
	return max(ttl, c.Contender.Traits.MinTTL)
}

// Open makes a client, which is closed when the cell is done.
func (c *Cell) Open(ctx context.Context) (contender.Client, error) {
	return opened(c, func(cfg contender.Config) (contender.Client, error) { return c.Contender.Open(ctx, cfg) })
}

// OpenCrowd makes n clients that measure by themselves; they are closed when the cell is done.
func (c *Cell) OpenCrowd(ctx context.Context, n int) (contender.Crowd, error) {
	return opened(c, func(cfg contender.Config) (contender.Crowd, error) { return c.Contender.OpenCrowd(ctx, cfg, n) })
}

// opened returns what open makes, to be closed with the cell.
func opened[T io.Closer](c *Cell, open func(contender.Config) (T, error)) (T, error) {
	client, err := open(contender.Config{Addrs: c.Site.Addrs, TTL: c.TTL(), HandOver: c.Case.HandOver})
	if err != nil {
		return client, fmt.Errorf("open: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clients = append(c.clients, client)
	return client, nil
}

// OpenN makes n clients.
func (c *Cell) OpenN(ctx context.Context, n int) ([]contender.Client, error) {
	all := make([]contender.Client, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	turns := make(chan struct{}, 32) // so that a thousand do not knock at once
	for i := range all {
		wg.Go(func() {
			turns <- struct{}{}
			all[i], errs[i] = c.Open(ctx)
			<-turns
		})
	}
	wg.Wait()
	return all, errors.Join(errs...)
}

// close ends the clients of the cell. What a library says on closing is not our
// business here, nor how long it waits for a server that is silent.
func (c *Cell) close() {
	c.mu.Lock()
	clients := c.clients
	c.clients = nil
	c.mu.Unlock()
	var wg sync.WaitGroup
	for _, client := range clients {
		wg.Go(func() { _ = client.Close() })
	}
	closed := make(chan struct{})
	go func() {
		wg.Wait()
		close(closed)
	}()
	if c.Contender.Setup.Variant == contender.BlackHole {
		return
	}
	select {
	case <-closed:
	case <-time.After(5 * time.Second):
	}
}

func (c *Cell) key(metric string) measure.Key {
	return measure.Key{Experiment: c.Experiment.Name, Case: c.Case.Name, Contender: c.Contender.Name, Metric: metric}
}

// Put notes the value of a metric.
func (c *Cell) Put(metric string, v float64) { c.results.Add(c.key(metric), v) }

// PutLatency notes p50 and p99 of a metric, in milliseconds, and keeps the histogram.
func (c *Cell) PutLatency(metric string, h *measure.Histogram) {
	if h.Count() == 0 {
		return
	}
	c.Put(metric+" p50", millis(h.Quantile(.5)))
	c.Put(metric+" p99", millis(h.Quantile(.99)))
	c.results.AddHistogram(c.key(metric), h)
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

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

// withoutSessions reports whether the server of a contender knows no sessions that have to be kept alive.
func withoutSessions(c contender.Contender) bool {
	return slices.Contains([]contender.Service{contender.Redis, contender.Postgres, contender.MariaDB}, c.Setup.Service)
}

// onRedis reports whether an exhibit is one that stands beside the rivals on Redis.
func onRedis(c contender.Contender) bool { return c.Setup.Service == contender.Redis }

// distributed also leaves out what lives in one process.
func distributed(d Depth, c contender.Contender, k Case) bool {
	return usual(d, c, k) && c.Setup.Service != contender.Memory
}

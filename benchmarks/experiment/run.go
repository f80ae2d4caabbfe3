package experiment

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/measure"
	"github.com/seed80cd6120/locker/benchmarks/site"
)

// Plan is what to run.
type Plan struct {
	Experiments []Experiment
	// Contenders take turns in this order and its reverse: those that are compared with
	// each other stand beside each other, to be measured close in time.
	Contenders []contender.Contender
	Depth      Depth
	// Patience is how long one measurement may take, so that a lock that hangs does not
	// hold up the others. Zero is what suits the depth.
	Patience time.Duration
	// Repeat, if not zero, replaces the number of repetitions of every experiment.
	Repeat int
	Given  site.Given
	// Progress is told what is being done and how much of all has been, from 0 to 1.
	Progress func(what string, done float64)
}

// Outcome is what came of a Plan.
type Outcome struct {
	Results  *measure.Results
	Versions map[string]string // by Setup
	Took     time.Duration
	Started  time.Time
	Parts    []Part
}

// Part is how long an experiment took, the starting of its servers included.
type Part struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
}

// Run measures. What fails is noted in the results and does not stop the rest; the error
// is that of ctx.
func (p Plan) Run(ctx context.Context) (*Outcome, error) {
	r := &runner{
		Plan:     p,
		results:  &measure.Results{},
		sites:    map[contender.Setup]*site.Site{},
		versions: map[string]string{},
		failed:   map[string]bool{},
	}
	if r.Patience == 0 {
		r.Patience = pick(r.Depth, 90*time.Second, 90*time.Second, 3*time.Minute)
	}
	defer r.closeSites()
	cells := make([][]*Cell, len(p.Experiments))
	for i := range p.Experiments {
		cells[i] = r.cells(&p.Experiments[i])
		r.total += len(cells[i])
	}
	o := &Outcome{Results: r.results, Started: time.Now()}
	for i := range p.Experiments {
		if ctx.Err() != nil {
			break
		}
		start := time.Now()
		r.experiment(ctx, &p.Experiments[i], cells[i])
		o.Parts = append(o.Parts, Part{p.Experiments[i].Name, time.Since(start).Seconds()})
	}
	o.Took, o.Versions = time.Since(o.Started), maps.Clone(r.versions)
	return o, ctx.Err()
}

type runner struct {
	Plan
	results *measure.Results
	total   int

	mu       sync.Mutex
	sites    map[contender.Setup]*site.Site // nil if it could not be started
	versions map[string]string
	failed   map[string]bool // what is not tried again
	done     int
}

// setVersion notes what servers of some kind said of themselves.
func (r *runner) setVersion(of, version string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.versions[of] = version
}

// cells are the measurements of an experiment in their order: all contenders of a case
// take turns, repetition by repetition, forwards and then backwards: who comes right after
// another, or to a server that has rested, must not be the same each time.
func (r *runner) cells(e *Experiment) []*Cell {
	var all []*Cell
	for _, k := range e.Cases(r.Depth) {
		for rep := range cmp.Or(r.Repeat, k.Times, e.Repeat(r.Depth)) {
			turns := slices.Clone(r.Contenders)
			if rep%2 == 1 {
				slices.Reverse(turns)
			}
			for _, c := range turns {
				if e.takes(r.Depth, c, k, rep) {
					all = append(all, &Cell{Experiment: e, Case: k, Contender: c, Rep: rep, Depth: r.Depth, run: r})
				}
			}
		}
	}
	if e.InTurn {
		slices.SortStableFunc(all, func(a, b *Cell) int { return cmp.Compare(a.Rep, b.Rep) })
	}
	return all
}

// most is how often a contender is measured at most: crowds start a JVM each time, which takes seconds until it is fast, and
// those that hang take seconds for each call.
func most(c contender.Contender) int {
	switch {
	case c.OpenCrowd != nil:
		return 4
	case hangs(c):
		return 6
	}
	return math.MaxInt
}

// takes reports whether a contender is measured in a repetition of a case. Crowds take seconds to start, and show nothing
// in the smoke form.
func (e *Experiment) takes(d Depth, c contender.Contender, k Case, rep int) bool {
	if c.OpenCrowd != nil && (!e.Crowds || d == Smoke || k.How == oneClient) {
		return false
	}
	return rep < most(c) && e.Fits(d, c, k)
}

func (r *runner) experiment(ctx context.Context, e *Experiment, cells []*Cell) {
	if !e.Own {
		r.openSites(ctx, cells)
	}
	for len(cells) > 0 {
		first, n := cells[0], 1
		if e.Together != nil && e.Together(r.Depth, first.Case) {
			for n < len(cells) && cells[n].Rep == first.Rep && cells[n].Case == first.Case {
				n++
			}
		}
		var wg sync.WaitGroup
		for _, c := range cells[:n] {
			wg.Go(func() { r.cell(ctx, c) })
		}
		wg.Wait()
		cells = cells[n:]
	}
}

// cell measures one cell, unless the same has failed before, and notes why it fails.
func (r *runner) cell(ctx context.Context, c *Cell) {
	e := c.Experiment
	which := e.Name + "\x00" + c.Case.Name + "\x00" + c.Contender.Name
	r.mu.Lock()
	c.Site = r.sites[c.Contender.Setup]
	skip := r.failed[which] || ctx.Err() != nil || c.Site == nil && !e.Own // it was said why when it was to be started
	r.mu.Unlock()
	defer r.count()
	if skip {
		return
	}
	what := e.Title
	if c.Case.Name != "" {
		what += ", " + c.Case.Name
	}
	r.tell(what + ": " + c.Contender.Name)
	defer c.close()
	within, cancel := context.WithTimeout(ctx, r.Patience)
	defer cancel()
	err := e.Do(within, c)
	if err == nil {
		return
	}
	r.mu.Lock()
	r.failed[which] = true
	r.mu.Unlock()
	if ctx.Err() == nil {
		if within.Err() != nil {
			err = fmt.Errorf("given up after %v: %w", r.Patience, err)
		}
		r.results.Fail(measure.Failure{Experiment: e.Name, Case: c.Case.Name, Contender: c.Contender.Name, Reason: err.Error()})
	}
}

// tell shows what is being done, and how much has been.
func (r *runner) tell(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Progress != nil {
		r.Progress(what, float64(r.done)/float64(max(1, r.total)))
	}
}

func (r *runner) count() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done++
}

package experiment

import (
	"cmp"
	"context"
	"fmt"
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
	// ShopDatabase is where the shop keeps its stock: empty for a new SQLite file,
	// otherwise as package store understands it.
	ShopDatabase string
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
		Plan:    p,
		results: &measure.Results{},
		sites:   map[contender.Setup]*site.Site{},
		broken:  map[contender.Setup]bool{},
	}
	started := time.Now()
	defer r.closeSites()
	for i := range p.Experiments {
		r.total += len(r.cells(&p.Experiments[i]))
	}
	for i := range p.Experiments {
		if err := ctx.Err(); err != nil {
			return r.outcome(started), err
		}
		start := time.Now()
		r.experiment(ctx, &p.Experiments[i])
		r.parts = append(r.parts, Part{p.Experiments[i].Name, time.Since(start).Seconds()})
	}
	return r.outcome(started), ctx.Err()
}

type runner struct {
	Plan
	results *measure.Results
	sites   map[contender.Setup]*site.Site
	broken  map[contender.Setup]bool
	version sync.Map
	mu      sync.Mutex
	total   int
	done    int
	parts   []Part
}

func (r *runner) outcome(started time.Time) *Outcome {
	o := &Outcome{Results: r.results, Versions: map[string]string{}, Took: time.Since(started), Started: started, Parts: r.parts}
	r.version.Range(func(k, v any) bool {
		o.Versions[k.(string)] = v.(string)
		return true
	})
	return o
}

// cells are the measurements of an experiment in their order: all contenders of a case
// take turns, repetition by repetition, forwards and then backwards: who comes right after
// another, or to a server that has rested, must not be the same each time.
func (r *runner) cells(e *Experiment) []*Cell {
	var all []*Cell
	for _, k := range e.Cases(r.Depth) {
		for rep := range r.times(e, k) {
			turns := r.Contenders
			if rep%2 == 1 {
				turns = slices.Clone(turns)
				slices.Reverse(turns)
			}
			for _, c := range turns {
				if c.OpenCrowd != nil && !e.takesCrowd(r.Depth, k) {
					continue
				}
				if e.Fits(r.Depth, c, k) && !e.enough(c, rep) {
					all = append(all, &Cell{Experiment: e, Case: k, Contender: c, Rep: rep, Depth: r.Depth, results: r.results, database: r.ShopDatabase, version: &r.version})
				}
			}
		}
	}
	if e.Mixed || e.InTurn {
		after := func(c *Cell) int { // those that need the machine for themselves
			if r.together(e, c) {
				return 0
			}
			return 1
		}
		slices.SortStableFunc(all, func(a, b *Cell) int {
			return cmp.Or(cmp.Compare(a.Rep, b.Rep), cmp.Compare(after(a), after(b)))
		})
	}
	return all
}

// takesCrowd reports whether a case is measured with crowds. They take seconds to start, and show nothing in the smoke form.
func (e *Experiment) takesCrowd(d Depth, k Case) bool {
	return e.Crowds && d != Smoke && k.How != oneClient
}

// crowdsMost is how often crowds are measured at most: each time a JVM starts and runs for seconds until it is fast.
const crowdsMost = 4

// enough reports whether a contender has been measured so often before.
func (e *Experiment) enough(c contender.Contender, rep int) bool {
	if c.OpenCrowd != nil && rep >= crowdsMost {
		return true
	}
	if e.Most == nil {
		return false
	}
	most := e.Most(c)
	return most > 0 && rep >= most
}

func (r *runner) times(e *Experiment, k Case) int {
	switch {
	case r.Repeat > 0:
		return r.Repeat
	case k.Times > 0:
		return k.Times
	}
	return e.Repeat(r.Depth)
}

func (r *runner) experiment(ctx context.Context, e *Experiment) {
	cells := r.cells(e)
	if !e.Own {
		r.openSites(ctx, cells)
	}
	failed := map[string]bool{}
	for len(cells) > 0 {
		n := r.atOnce(e, cells)
		var wg sync.WaitGroup
		var mu sync.Mutex
		for _, c := range cells[:n] {
			which := c.Case.Name + "\x00" + c.Contender.Name
			mu.Lock()
			skip := failed[which] || ctx.Err() != nil
			mu.Unlock()
			if skip {
				r.count(1)
				continue
			}
			wg.Go(func() {
				if !r.cell(ctx, c) {
					mu.Lock()
					failed[which] = true
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		cells = cells[n:]
	}
}

// atOnce is how many of the cells that come next are measured at the same time: those of
// one repetition of a case, or of all cases, or one.
func (r *runner) atOnce(e *Experiment, cells []*Cell) int {
	n := 0
	for n < len(cells) && r.together(e, cells[n]) &&
		cells[n].Rep == cells[0].Rep && (e.Mixed || cells[n].Case == cells[0].Case) {
		n++
	}
	return max(1, n)
}

func (r *runner) together(e *Experiment, c *Cell) bool {
	return e.Together != nil && e.Together(r.Depth, c.Case)
}

func (r *runner) cell(ctx context.Context, c *Cell) bool {
	e := c.Experiment
	what := e.Title
	if c.Case.Name != "" {
		what += ", " + c.Case.Name
	}
	r.tell(what + ": " + c.Contender.Name)
	defer r.count(1)
	if !e.Own {
		if c.Site = r.sites[c.Contender.Setup]; c.Site == nil {
			return false // said when it was to be started
		}
	}
	defer c.close()
	within, cancel := context.WithTimeout(ctx, r.patience())
	defer cancel()
	err := e.Do(within, c)
	if err != nil && ctx.Err() == nil {
		if within.Err() != nil {
			err = fmt.Errorf("given up after %v: %w", r.patience(), err)
		}
		r.results.Fail(measure.Failure{Experiment: e.Name, Case: c.Case.Name, Contender: c.Contender.Name, Reason: err.Error()})
	}
	return err == nil
}

func (r *runner) patience() time.Duration {
	if r.Patience > 0 {
		return r.Patience
	}
	return pick(r.Depth, 90*time.Second, 90*time.Second, 3*time.Minute)
}

func (r *runner) tell(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Progress != nil {
		r.Progress(what, float64(r.done)/float64(max(1, r.total)))
	}
}

func (r *runner) count(n int) {
	r.mu.Lock()
	r.done += n
	r.mu.Unlock()
}

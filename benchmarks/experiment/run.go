package experiment

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/measure"
	"github.com/seed80cd6120/locker/benchmarks/site"
)

// Plan is what to run.
type Plan struct {
	Experiments []Experiment
	Contenders  []contender.Contender
	Depth       Depth
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
// take turns, repetition by repetition.
func (r *runner) cells(e *Experiment) []*Cell {
	reps := e.Repeat(r.Depth)
	if r.Repeat > 0 {
		reps = r.Repeat
	}
	var all []*Cell
	for _, k := range e.Cases(r.Depth) {
		for rep := range reps {
			for _, c := range r.inOrder() {
				if e.Fits(r.Depth, c, k) {
					all = append(all, &Cell{Experiment: e, Case: k, Contender: c, Rep: rep, Depth: r.Depth, results: r.results, database: r.ShopDatabase})
				}
			}
		}
	}
	return all
}

// inOrder has those who share servers beside each other, so that what is compared is
// close in time.
func (r *runner) inOrder() []contender.Contender {
	var order []contender.Setup
	by := map[contender.Setup][]contender.Contender{}
	for _, c := range r.Contenders {
		if by[c.Setup] == nil {
			order = append(order, c.Setup)
		}
		by[c.Setup] = append(by[c.Setup], c)
	}
	var all []contender.Contender
	for _, s := range order {
		all = append(all, by[s]...)
	}
	return all
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
// one repetition of a case, or one.
func (r *runner) atOnce(e *Experiment, cells []*Cell) int {
	first := cells[0]
	if e.Together == nil || !e.Together(first.Case) {
		return 1
	}
	n := 0
	for n < len(cells) && cells[n].Case == first.Case && cells[n].Rep == first.Rep {
		n++
	}
	return n
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
	err := e.Do(ctx, c)
	if err != nil && ctx.Err() == nil {
		r.results.Fail(measure.Failure{Experiment: e.Name, Case: c.Case.Name, Contender: c.Contender.Name, Reason: err.Error()})
	}
	return err == nil
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

// openSites starts what servers the cells need and are not there yet, at once.
func (r *runner) openSites(ctx context.Context, cells []*Cell) {
	type need struct {
		setup contender.Setup
		warm  contender.Contender
	}
	var needs []need
	seen := map[contender.Setup]bool{}
	for _, c := range cells {
		s := c.Contender.Setup
		if base := baseOf(s); base != s {
			r.derive(ctx, s)
			continue
		}
		if !seen[s] && r.sites[s] == nil && !r.broken[s] {
			seen[s] = true
			needs = append(needs, need{s, c.Contender})
		}
	}
	var wg sync.WaitGroup
	for _, n := range needs {
		r.tell("starting " + n.setup.String())
		wg.Go(func() { r.openSite(ctx, n.setup) })
	}
	wg.Wait()
	for _, n := range needs {
		if s := r.sites[n.setup]; s != nil && n.setup.Service != contender.Memory {
			r.tell("warming up " + n.setup.String())
			warmUp(ctx, s, n.warm)
		}
	}
}

// baseOf is the setup whose servers another setup uses.
func baseOf(s contender.Setup) contender.Setup {
	if s.Variant == contender.BlackHole {
		s.Variant = contender.Usual
	}
	return s
}

func (r *runner) derive(ctx context.Context, s contender.Setup) {
	base := baseOf(s)
	if r.sites[s] != nil {
		return
	}
	if r.sites[base] == nil && !r.broken[base] {
		r.openSite(ctx, base)
	}
	if r.sites[base] == nil {
		return
	}
	d, err := r.sites[base].Derive(s.Variant)
	if err != nil {
		r.results.Fail(measure.Failure{Reason: fmt.Sprintf("%s: %v", s, err)})
		return
	}
	r.sites[s] = d
	r.version.Store(s.String(), d.Version)
}

func (r *runner) openSite(ctx context.Context, s contender.Setup) {
	opened, err := site.Start(ctx, s, r.Given)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.broken[s] = true
		r.results.Fail(measure.Failure{Reason: fmt.Sprintf("%s could not be started: %v", s, err)})
		return
	}
	r.sites[s] = opened
	r.version.Store(s.String(), opened.Version)
}

func (r *runner) closeSites() {
	for _, s := range r.sites {
		if err := s.Close(); err != nil {
			r.results.Fail(measure.Failure{Reason: fmt.Sprintf("closing %s: %v", s.Setup, err)})
		}
	}
}

// warmUp gives a server its first work: ZooKeeper's JVM compiles while it does.
func warmUp(ctx context.Context, s *site.Site, c contender.Contender) {
	d := 100 * time.Millisecond
	if s.Setup.Service == contender.ZooKeeper {
		d = time.Second
	}
	client, err := c.Open(ctx, contender.Config{Addrs: s.Addrs, TTL: DefaultTTL})
	if err != nil {
		return // the first cell will say why
	}
	defer client.Close()
	for start := time.Now(); time.Since(start) < d; {
		held, err := client.Acquire(ctx, "warm-up")
		if err != nil {
			return
		}
		if held.Release(ctx) != nil {
			return
		}
	}
}

package experiment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/measure"
	"github.com/seed80cd6120/locker/internal/locktest"
)

var must = locktest.Must

// fake is a lock of this process, with a defect if wanted.
type fake struct {
	free   chan struct{}
	broken bool          // excludes nobody
	forget chan struct{} // whoever waits gets nothing any more once it is closed
}

func newFake() *fake {
	f := &fake{free: make(chan struct{}, 1), forget: make(chan struct{})}
	f.free <- struct{}{}
	return f
}

func (f *fake) client() contender.Client {
	return contender.Client{Acquire: f.acquire, Close: contender.Closing(func() {})}
}

func (f *fake) acquire(ctx context.Context, _ string) (contender.Held, error) {
	if f.broken {
		return contender.Plain(f.release), nil
	}
	select {
	case <-f.forget:
		<-ctx.Done()
		return nil, ctx.Err()
	default:
	}
	select {
	case <-f.free:
		return contender.Plain(f.release), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (f *fake) release(context.Context) error {
	if !f.broken {
		f.free <- struct{}{}
	}
	return nil
}

func crowdOf(f *fake, n int) []contender.Client {
	return slices.Repeat([]contender.Client{f.client()}, n)
}

// competes has clients compete for a name; returns what came of it.
func competes(t *testing.T, clients []contender.Client, k contest) *tally {
	t.Helper()
	r, err := compete(t.Context(), clients, "x", k)
	must(t, err)
	return r
}

func TestCompeteCountsWhatItSees(t *testing.T) {
	r := competes(t, crowdOf(newFake(), 4), contest{window: 100 * time.Millisecond})
	sum := measure.Sum(r.counts)
	if sum == 0 || r.all < sum || r.acquire.Count() != r.all {
		t.Errorf("%d in the window, %d in all, %d latencies", sum, r.all, r.acquire.Count())
	}
	if r.overlaps != 0 || r.stuck != 0 {
		t.Errorf("a sound lock has %d overlaps, %d stuck", r.overlaps, r.stuck)
	}
}

// What is not warm yet is not measured, but told.
func TestCompeteLeavesOutTheBeginning(t *testing.T) {
	const connecting = 60 * time.Millisecond
	f := newFake()
	<-f.free
	time.AfterFunc(connecting, func() { f.free <- struct{}{} })
	r := competes(t, crowdOf(f, 4), contest{warm: 3 * connecting, window: 100 * time.Millisecond})
	sum := measure.Sum(r.counts)
	if sum == 0 || r.all <= sum || r.acquire.Count() >= r.all {
		t.Errorf("%d in the window, %d in all, %d latencies", sum, r.all, r.acquire.Count())
	}
	if once := slices.Max(r.once); once < connecting/2 || once == never { // the timer began first
		t.Errorf("all had it after %v, want about %v or more", once, connecting)
	}
}

func TestCompeteSeesTwoInside(t *testing.T) {
	f := newFake()
	f.broken = true
	for range 100 { // until two goroutines happen to be inside
		if competes(t, crowdOf(f, 8), contest{window: 50 * time.Millisecond}).overlaps > 0 {
			return
		}
	}
	t.Error("a lock that excludes nobody was never seen to have two inside")
}

// Where several may hold the name, they do, and for as long as they are to.
func TestCompeteWithSeveralAtOnce(t *testing.T) {
	f := newFake()
	f.free = make(chan struct{}, 3)
	for range cap(f.free) {
		f.free <- struct{}{}
	}
	k := contest{warm: 50 * time.Millisecond, window: 400 * time.Millisecond, atOnce: 3, hold: 5 * time.Millisecond}
	var r *tally
	for range 10 { // what they hold for longer than the window counts in full
		r = competes(t, crowdOf(f, 8), k)
		if r.overlaps != 0 {
			t.Fatalf("%d overlaps", r.overlaps)
		}
		if r.held >= 1 && r.held <= 3.5 {
			break
		}
	}
	if r.held < 1 || r.held > 3.5 {
		t.Errorf("%.2f held of 3", r.held)
	}
	k.atOnce = 2
	if r = competes(t, crowdOf(f, 8), k); r.overlaps == 0 {
		t.Errorf("three where two may hold: %+v", r)
	}
}

func TestCompeteSeesTheStuck(t *testing.T) {
	f := newFake()
	client := f.client()
	var once sync.Once
	client.Acquire = func(ctx context.Context, name string) (contender.Held, error) {
		held, err := f.acquire(ctx, name)
		once.Do(func() { close(f.forget) }) // the first has it
		return held, err
	}
	if competes(t, slices.Repeat([]contender.Client{client}, 4), contest{window: 100 * time.Millisecond}).stuck == 0 {
		t.Error("nobody is stuck although the lock forgot its waiters")
	}
}

// trial runs e, in one case unless it has others, as p says, with a and b in this process unless p has others; returns the outcome.
func trial(t *testing.T, e Experiment, p Plan) *Outcome {
	t.Helper()
	if e.Cases == nil {
		e.Cases = func(Depth) []Case { return []Case{{}} }
	}
	e.Fits = func(Depth, contender.Contender, Case) bool { return true }
	p.Experiments = []Experiment{e}
	if p.Contenders == nil {
		p.Contenders = []contender.Contender{{Name: "a", Setup: contender.InProcess}, {Name: "b", Setup: contender.InProcess}}
	}
	o, err := p.Run(t.Context())
	must(t, err)
	return o
}

// The contenders take turns, one that fails does not stop the others, and the progress counts all that is done before.
func TestRunTakesTurns(t *testing.T) {
	var mu sync.Mutex
	var order []string
	e := Experiment{
		Name:   "turns",
		Title:  "Turns",
		Cases:  func(Depth) []Case { return []Case{{Name: "one"}, {Name: "two"}} },
		Repeat: func(Depth) int { return 2 },
		Do: func(_ context.Context, c *Cell) error {
			mu.Lock()
			defer mu.Unlock()
			if c.Contender.Name == "b" && c.Case.Name == "two" {
				return errors.New("b cannot do two")
			}
			order = append(order, c.Case.Name+c.Contender.Name)
			c.Put("figure", float64(c.Rep))
			return nil
		},
	}
	var last float64
	o := trial(t, e, Plan{Progress: func(_ string, done float64) { last = max(last, done) }})
	if got, want := strings.Join(order, " "), "onea oneb oneb onea twoa twoa"; got != want {
		t.Errorf("order %s, want %s", got, want)
	}
	if got := o.Results.Values(measure.Key{Experiment: "turns", Case: "one", Contender: "b", Metric: "figure"}); !slices.Equal(got, []float64{0, 1}) {
		t.Errorf("values %v", got)
	}
	f := o.Results.Failures()
	if len(f) != 1 || f[0].Reason != "b cannot do two" || f[0].Case != "two" {
		t.Errorf("failures %v", f)
	}
	if last != 7./8 { // when the last of eight began
		t.Errorf("progress ended at %v", last)
	}
}

// A lock that hangs fails alone, and soon.
func TestRunGivesUp(t *testing.T) {
	e := Experiment{
		Name:   "hang",
		Repeat: func(Depth) int { return 5 },
		Do: func(ctx context.Context, c *Cell) error {
			if c.Contender.Name == "a" {
				<-ctx.Done()
				return ctx.Err()
			}
			c.Put("figure", 1)
			return nil
		},
	}
	o := trial(t, e, Plan{Patience: 20 * time.Millisecond})
	if f := o.Results.Failures(); len(f) != 1 || f[0].Contender != "a" || !strings.HasPrefix(f[0].Reason, "given up after 20ms") {
		t.Errorf("failures %v", f)
	}
	if got := o.Results.Values(measure.Key{Experiment: "hang", Contender: "b", Metric: "figure"}); len(got) != 5 {
		t.Errorf("the other has %v", got)
	}
}

// On a server that needs long for a hand-over the readers do not pause for minutes.
func TestWriterAmongReadersOfSlowServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := readers()
		e.Cases = func(Depth) []Case { return []Case{{Name: oneWriter, N: 64, How: oneWriter}} }
		e.Do = func(ctx context.Context, c *Cell) error {
			c.Rep = 1 // which counts no requests
			return readers().Do(ctx, c)
		}
		held := make(chan struct{}, 1)
		exclusive := func(ctx context.Context, _ string) (contender.Held, error) {
			held <- struct{}{}
			return contender.Plain(func(context.Context) error { <-held; return nil }), contender.Pause(ctx, 150*time.Millisecond)
		}
		shared := func(context.Context, string, contender.Kind) (contender.Held, error) {
			return contender.Plain(func(context.Context) error { return nil }), nil
		}
		slow := contender.Client{Acquire: exclusive, AcquireKind: shared, Close: contender.Closing(func() {})}
		a := contender.Contender{Name: "a", Setup: contender.InProcess}
		a.Open = func(context.Context, contender.Config) (contender.Client, error) { return slow, nil }
		if o := trial(t, e, Plan{Contenders: []contender.Contender{a}, Patience: 15 * time.Second}); len(o.Results.Failures()) > 0 {
			t.Error(o.Results.Failures())
		}
	})
}

// One that takes seconds for each call is left out of the later repetitions.
func TestRunMost(t *testing.T) {
	e := Experiment{
		Name:   "most",
		Repeat: func(Depth) int { return 8 },
		Own:    true,
		Do:     func(_ context.Context, c *Cell) error { c.Put("figure", 1); return nil },
	}
	slow := contender.Contender{Name: "a", Role: contender.Rival, Setup: contender.Redis1.But(contender.BlackHole)}
	o := trial(t, e, Plan{Contenders: []contender.Contender{slow, {Name: "b", Setup: contender.InProcess}}})
	for name, want := range map[string]int{"a": 6, "b": 8} {
		if got := o.Results.Values(measure.Key{Experiment: "most", Contender: name, Metric: "figure"}); len(got) != want {
			t.Errorf("%s was measured %d times, want %d", name, len(got), want)
		}
	}
}

// What only waits is measured at the same time, repetition by repetition; what does
// not has the machine for itself.
func TestRunTogether(t *testing.T) {
	var busy atomic.Int64
	var mu sync.Mutex
	here := map[string]int{}           // how many are there, by case and repetition
	both := map[string]chan struct{}{} // closed when two are
	e := Experiment{
		Name:     "together",
		Cases:    func(Depth) []Case { return []Case{{Name: "one"}, {Name: "busy"}, {Name: "two"}} },
		Repeat:   func(Depth) int { return 2 },
		Together: func(_ Depth, k Case) bool { return k.Name != "busy" },
		Do: func(ctx context.Context, c *Cell) error {
			if c.Case.Name == "busy" {
				defer busy.Add(-1)
				if busy.Add(1) > 1 {
					t.Error("two that are busy at the same time")
				}
				return nil
			}
			which := fmt.Sprint(c.Case.Name, c.Rep)
			mu.Lock()
			if both[which] == nil {
				both[which] = make(chan struct{})
			}
			there := both[which]
			if here[which]++; here[which] == 2 {
				close(there)
			}
			mu.Unlock()
			select {
			case <-there:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		},
	}
	if o := trial(t, e, Plan{Patience: 5 * time.Second}); len(o.Results.Failures()) > 0 {
		t.Error(o.Results.Failures())
	}
}

// Cases that are compared with one another take turns, repetition by repetition.
func TestCasesTakeTurns(t *testing.T) {
	var order []string
	e := Experiment{
		Name:   "turns",
		Cases:  func(Depth) []Case { return []Case{{Name: "few", Times: 1}, {Name: "one"}, {Name: "two"}} },
		Repeat: func(Depth) int { return 2 },
		InTurn: true,
		Do: func(_ context.Context, c *Cell) error {
			order = append(order, c.Case.Name+" "+c.Contender.Name)
			return nil
		},
	}
	trial(t, e, Plan{})
	want := []string{"few a", "few b", "one a", "one b", "two a", "two b", "one b", "one a", "two b", "two a"}
	if !slices.Equal(order, want) {
		t.Errorf("measured in the order %q, want %q", order, want)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	e := alone()
	e.Do = func(context.Context, *Cell) error {
		cancel()
		return ctx.Err()
	}
	someone := contender.Contender{Name: "a", Setup: contender.InProcess}
	o, err := Plan{Experiments: []Experiment{e}, Contenders: []contender.Contender{someone}}.Run(ctx)
	if !errors.Is(err, context.Canceled) || o == nil || len(o.Results.Failures()) != 0 {
		t.Errorf("%v, %+v", err, o)
	}
}

func TestQueue(t *testing.T) {
	f := newFake()
	held, err := f.acquire(t.Context(), "x")
	must(t, err)
	ctx := t.Context()
	q := newQueue(ctx, 2)
	q.join(f.client(), "x", 0)
	q.join(f.client(), "x", 1)
	must(t, held.Release(ctx))
	first, err := q.soon(ctx)
	must(t, err)
	select {
	case <-q.turns:
		t.Fatal("the second got the lock while the first had it")
	default:
	}
	q.hurry()
	must(t, first.release(ctx))
	second, err := q.soon(ctx)
	if err != nil || second.waiter == first.waiter {
		t.Fatalf("%+v, %v", second, err)
	}
	// It released by itself.
	_, err = f.acquire(ctx, "x")
	must(t, err)
	q.leave()
}

// Names and metrics are what reports and figures are found by.
func TestExperimentsAreComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range All() {
		if e.Name == "" || seen[e.Name] || e.Title == "" || e.Question == "" || e.Method == "" || e.Do == nil || e.Fits == nil {
			t.Errorf("%q is not complete", e.Name)
		}
		seen[e.Name] = true
		metrics := map[string]bool{}
		for _, m := range e.Metrics {
			if m.Name == "" || m.Meaning == "" || metrics[m.Name] {
				t.Errorf("%s: metric %q is not complete", e.Name, m.Name)
			}
			metrics[m.Name] = true
		}
		for _, d := range []Depth{Smoke, Quick, Short, Full} {
			if len(e.Cases(d)) == 0 || e.Repeat(d) < 1 {
				t.Errorf("%s has nothing to do in the %s form", e.Name, d)
			}
		}
	}
}

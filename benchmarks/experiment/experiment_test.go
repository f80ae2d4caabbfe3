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
)

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

func TestCompeteCountsWhatItSees(t *testing.T) {
	r, err := compete(t.Context(), crowdOf(newFake(), 4), "x", contest{window: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
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
	r, err := compete(t.Context(), crowdOf(f, 4), "x", contest{warm: 3 * connecting, window: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
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
		r, err := compete(t.Context(), crowdOf(f, 8), "x", contest{window: 50 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		if r.overlaps > 0 {
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
	var err error
	for range 10 { // what they hold for longer than the window counts in full
		if r, err = compete(t.Context(), crowdOf(f, 8), "x", k); err != nil {
			t.Fatal(err)
		}
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
	if r, err = compete(t.Context(), crowdOf(f, 8), "x", k); err != nil || r.overlaps == 0 {
		t.Errorf("three where two may hold: %+v, %v", r, err)
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
	r, err := compete(t.Context(), slices.Repeat([]contender.Client{client}, 4), "x", contest{window: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if r.stuck == 0 {
		t.Error("nobody is stuck although the lock forgot its waiters")
	}
}

// The contenders take turns, one that fails does not stop the others, and the
// progress reaches its end.
func TestRunTakesTurns(t *testing.T) {
	var mu sync.Mutex
	var order []string
	e := Experiment{
		Name:   "turns",
		Title:  "Turns",
		Cases:  func(Depth) []Case { return []Case{{Name: "one"}, {Name: "two"}} },
		Repeat: func(Depth) int { return 2 },
		Fits:   func(Depth, contender.Contender, Case) bool { return true },
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
	someone := func(name string) contender.Contender {
		return contender.Contender{Name: name, Setup: contender.Setup{Service: contender.Memory}}
	}
	var last float64
	p := Plan{
		Experiments: []Experiment{e},
		Contenders:  []contender.Contender{someone("a"), someone("b")},
		Progress:    func(_ string, done float64) { last = max(last, done) },
	}
	o, err := p.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
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
	if last < .7 {
		t.Errorf("progress ended at %v", last)
	}
}

// A lock that hangs fails alone, and soon.
func TestRunGivesUp(t *testing.T) {
	e := Experiment{
		Name:   "hang",
		Cases:  func(Depth) []Case { return []Case{{}} },
		Repeat: func(Depth) int { return 5 },
		Fits:   func(Depth, contender.Contender, Case) bool { return true },
		Do: func(ctx context.Context, c *Cell) error {
			if c.Contender.Name == "a" {
				<-ctx.Done()
				return ctx.Err()
			}
			c.Put("figure", 1)
			return nil
		},
	}
	memory := contender.Setup{Service: contender.Memory}
	p := Plan{Experiments: []Experiment{e}, Contenders: []contender.Contender{{Name: "a", Setup: memory}, {Name: "b", Setup: memory}}, Patience: 20 * time.Millisecond}
	o, err := p.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
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
		e.Fits = func(Depth, contender.Contender, Case) bool { return true }
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
		a := contender.Contender{Name: "a", Setup: contender.Setup{Service: contender.Memory}}
		a.Open = func(context.Context, contender.Config) (contender.Client, error) { return slow, nil }
		o, err := Plan{Experiments: []Experiment{e}, Contenders: []contender.Contender{a}, Patience: 15 * time.Second}.Run(t.Context())
		if err != nil || len(o.Results.Failures()) > 0 {
			t.Errorf("%v, %v", err, o.Results.Failures())
		}
	})
}

// One that takes seconds for each call is left out of the later repetitions.
func TestRunMost(t *testing.T) {
	e := Experiment{
		Name:   "most",
		Cases:  func(Depth) []Case { return []Case{{}} },
		Repeat: func(Depth) int { return 8 },
		Fits:   func(Depth, contender.Contender, Case) bool { return true },
		Own:    true,
		Do:     func(_ context.Context, c *Cell) error { c.Put("figure", 1); return nil },
	}
	slow := contender.Contender{Name: "a", Role: contender.Rival, Setup: contender.Redis1.But(contender.BlackHole)}
	o, err := Plan{Experiments: []Experiment{e}, Contenders: []contender.Contender{slow, {Name: "b", Setup: contender.InProcess}}}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
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
		Fits:     func(Depth, contender.Contender, Case) bool { return true },
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
	memory := contender.Setup{Service: contender.Memory}
	p := Plan{Experiments: []Experiment{e}, Contenders: []contender.Contender{{Name: "a", Setup: memory}, {Name: "b", Setup: memory}}, Patience: 5 * time.Second}
	o, err := p.Run(t.Context())
	if err != nil || len(o.Results.Failures()) > 0 {
		t.Errorf("%v, %v", err, o.Results.Failures())
	}
}

// Cases that are compared with one another take turns, repetition by repetition.
func TestCasesTakeTurns(t *testing.T) {
	var order []string
	e := Experiment{
		Name:   "turns",
		Cases:  func(Depth) []Case { return []Case{{Name: "few", Times: 1}, {Name: "one"}, {Name: "two"}} },
		Repeat: func(Depth) int { return 2 },
		Fits:   func(Depth, contender.Contender, Case) bool { return true },
		InTurn: true,
		Do: func(_ context.Context, c *Cell) error {
			order = append(order, c.Case.Name+" "+c.Contender.Name)
			return nil
		},
	}
	memory := contender.Setup{Service: contender.Memory}
	p := Plan{Experiments: []Experiment{e}, Contenders: []contender.Contender{{Name: "a", Setup: memory}, {Name: "b", Setup: memory}}}
	if _, err := p.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
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
	someone := contender.Contender{Name: "a", Setup: contender.Setup{Service: contender.Memory}}
	o, err := Plan{Experiments: []Experiment{e}, Contenders: []contender.Contender{someone}}.Run(ctx)
	if !errors.Is(err, context.Canceled) || o == nil || len(o.Results.Failures()) != 0 {
		t.Errorf("%v, %+v", err, o)
	}
}

func TestQueue(t *testing.T) {
	f := newFake()
	held, err := f.acquire(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	q := newQueue(ctx, 2)
	q.join(f.client(), "x", 0)
	q.join(f.client(), "x", 1)
	if err := held.Release(ctx); err != nil {
		t.Fatal(err)
	}
	first, err := q.soon(ctx)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-q.turns:
		t.Fatal("the second got the lock while the first had it")
	default:
	}
	q.hurry()
	if err := first.release(ctx); err != nil {
		t.Fatal(err)
	}
	second, err := q.soon(ctx)
	if err != nil || second.waiter == first.waiter {
		t.Fatalf("%+v, %v", second, err)
	}
	// It released by itself.
	if _, err := f.acquire(ctx, "x"); err != nil {
		t.Fatal(err)
	}
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

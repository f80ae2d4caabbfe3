package conformance

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/internal/lateness"
)

// testCase is one thing that a backend has to do.
type testCase struct {
	name    string
	promise int    // its number in the list of promises
	says    string // the sentence that the case enforces
	needs   need
	kinds   []*kind // for which it is run; none means that the kind does not matter
	alone   bool    // see apart
	run     func(c *C)
}

// newCase begins the description of a case.
func newCase(name string, promise int) *testCase { return &testCase{name: name, promise: promise} }

// needing says what the case cannot do without.
func (cs *testCase) needing(n need) *testCase {
	cs.needs = n
	return cs
}

// of says for which kinds the case is run.
func (cs *testCase) of(kinds []*kind) *testCase {
	cs.kinds = kinds
	return cs
}

// apart says that the case disturbs others, or is disturbed by them.
func (cs *testCase) apart() *testCase {
	cs.alone = true
	return cs
}

// proves ends the description: with the sentence that the case enforces, and how.
func (cs *testCase) proves(says string, run func(c *C)) *testCase {
	cs.says, cs.run = says, run
	return cs
}

// title is the name of the case's subtest for a kind, which may be nil.
func (cs *testCase) title(k *kind) string {
	if k == nil {
		return cs.name
	}
	return cs.name + "/" + k.name
}

const (
	caseLimit = 90 * time.Second // after which a case counts as hanging
	patience  = time.Hour        // the deadline for opening a client: without one some backends connect only once
	maxAgain  = 3                // how often a case is run again that came to no verdict
)

type runner struct {
	b     *Backend
	late  *lateness.Meter
	limit time.Duration
	cases []*testCase // those that are to be run
	some  bool        // not all, or not for all kinds

	mu     sync.Mutex
	notRun map[string][]string // reason -> cases
	again  []undecided         // to be run once more when the others are done; guarded by mu
	last   bool                // that is under way
}

// undecided is a case that came to no verdict because the machine was too slow.
type undecided struct {
	cs *testCase
	k  *kind
}

func newRunner(b *Backend) *runner {
	r := &runner{b: b, limit: caseLimit, cases: cases, notRun: make(map[string][]string)}
	if (b.Variant || b.oneKind || testing.Short()) && os.Getenv("LOCKER_CONFORMANCE") != "full" {
		r.cases, r.some = someCases(b), true
	}
	return r
}

// someCases returns the cases each for one of its kinds in turn, and for a form of a backend only
// those that are run on each.
func someCases(b *Backend) (some []*testCase) {
	for i, cs := range cases {
		if b.Variant && !cs.forVariants() {
			continue
		}
		one := *cs
		if kinds := claimed(cs.kinds, b); len(kinds) > 0 {
			one.kinds = []*kind{kinds[i%len(kinds)]}
		}
		some = append(some, &one)
	}
	return some
}

// forVariants reports whether the case is run on each form of a backend: it breaks servers or what leads to them, counts
// what reaches them, or has many contend, and what it shows may depend on how the servers are arranged.
func (cs *testCase) forVariants() bool {
	return strings.HasPrefix(cs.name, "Exclusion/") || cs.needs&(link|stop|destroy|requests|unfenced) != 0
}

// all runs every case: those that bear company first, all at once.
func (r *runner) all(t *testing.T) {
	t.Helper()
	var giveBack func()
	r.late, giveBack = lateness.Share()
	defer giveBack()
	var wg sync.WaitGroup
	slots := make(chan struct{}, r.atOnce())
	for _, cs := range r.cases {
		if cs.alone && !r.b.Private {
			continue
		}
		kinds := cs.kindsOf(r.b)
		r.late.Calm(func() bool { return len(slots) > 0 })
		for range kinds {
			slots <- struct{}{}
		}
		wg.Go(func() { r.runKinds(t, cs, kinds, slots) })
	}
	wg.Wait()
	for _, cs := range r.cases {
		if cs.alone && !r.b.Private {
			r.runKinds(t, cs, cs.kindsOf(r.b), nil)
		}
	}
	for round := 1; round <= maxAgain; round++ {
		again := r.again
		r.again, r.last = nil, round == maxAgain
		for _, u := range again { // with nothing beside it
			end := time.Now().Add(2 * time.Second)
			r.late.Calm(func() bool { return time.Now().Before(end) })
			t.Run(u.cs.title(u.k), func(t *testing.T) { r.run(t, u.cs, u.k) })
		}
	}
	if s := r.summary(); s != "" {
		t.Log(s)
	}
	if r.some {
		t.Logf("conformance: %d of %d cases, each for one kind of lock; LOCKER_CONFORMANCE=full runs all", len(r.cases), len(cases))
	}
}

// atOnce is how many cases are run at the same time. Most of the time they wait.
func (r *runner) atOnce() int {
	if testing.Short() && r.b.Private {
		return 64
	}
	return 16
}

func (r *runner) summary() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var lines []string
	n := 0
	for _, why := range slices.Sorted(maps.Keys(r.notRun)) {
		names := slices.Sorted(slices.Values(r.notRun[why]))
		n += len(names)
		lines = append(lines, fmt.Sprintf("  %s: %s", why, strings.Join(names, ", ")))
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("conformance: %d of %d cases were not run and are not passed:\n%s", n, len(r.cases), strings.Join(lines, "\n"))
}

// skip notes that the case was not run. could says that it could be, on a harness with all
// hooks or on a faster machine.
func (r *runner) skip(t testing.TB, cs *testCase, k *kind, why string, could bool) {
	t.Helper()
	name := cs.title(k)
	r.mu.Lock()
	r.notRun[why] = append(r.notRun[why], name)
	r.mu.Unlock()
	if could && r.b.RequireAll {
		t.Fatalf("not run: %s, and RequireAll is set", why)
	}
	t.Skipf("not run: %s", why)
}

// kindsOf returns the kinds for which the case is to be run, or nil alone where the kind
// does not matter.
func (cs *testCase) kindsOf(b *Backend) []*kind {
	if len(cs.kinds) == 0 {
		return []*kind{nil}
	}
	return claimed(cs.kinds, b)
}

// runKinds runs a case for these kinds: all at once, giving a slot back at the end of each,
// or one after the other if slots is nil.
func (r *runner) runKinds(t *testing.T, cs *testCase, kinds []*kind, slots <-chan struct{}) {
	left := int64(len(kinds))
	leave := func() {
		if slots != nil && atomic.AddInt64(&left, -1) >= 0 {
			<-slots
		}
	}
	t.Run(cs.name, func(t *testing.T) {
		var wg sync.WaitGroup
		defer wg.Wait()
		for _, k := range kinds {
			switch {
			case k == nil:
				r.run(t, cs, nil)
			case slots == nil:
				t.Run(k.name, func(t *testing.T) { r.run(t, cs, k) })
			default:
				wg.Go(func() {
					defer leave()
					t.Run(k.name, func(t *testing.T) { r.run(t, cs, k) })
				})
			}
		}
	})
	for range kinds { // also of those that -run leaves out
		leave()
	}
}

// run runs one case for one kind, which may be nil. The case has a goroutine of its own, so that it can be left
// behind when it hangs, and a label by which its goroutines are known.
func (r *runner) run(t testing.TB, cs *testCase, k *kind) {
	t.Helper()
	if why, isHook := cs.needs.claims(r.b); why != "" {
		r.skip(t, cs, k, why, isHook)
		return
	}
	h := r.b.New(t) // without the label: servers that are started with the first case are none of its goroutines
	if missing := cs.needs.missing(h); len(missing) > 0 {
		r.skip(t, cs, k, "needs "+strings.Join(missing, " and "), true)
		return
	}
	id := fmt.Sprintf("%s-%08x", cs.name, rand.Uint32())
	pprof.Do(context.Background(), pprof.Labels(labelKey, id), func(labelled context.Context) {
		ctx, cancel := context.WithCancel(labelled)
		defer cancel()
		opening, end := context.WithTimeout(ctx, patience)
		defer end()
		spare := r.limit / 8 // for the case to come back when its ctx has ended
		c := &C{tb: t, b: r.b, h: h, cs: cs, kind: k, late: r.late, id: id, ctx: ctx, opening: opening, cancel: cancel, seed: rand.Uint64(), begun: time.Now()}
		c.end, c.long = c.begun.Add(r.limit-spare), min(soon, r.limit/2)
		c.x = c.name("x")
		if k != nil {
			c.own, c.other = k.own, k.other
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer c.tidy()
			defer c.recovered()
			cs.run(c)
		}()
		_, ended := lateness.Receive(context.Background(), r.late, done, r.limit-spare)
		if !ended {
			cancel()
			_, ended = lateness.Receive(context.Background(), r.late, done, spare)
		}
		if !ended {
			c.hangs()
		}
		switch {
		case !c.over():
		case r.last:
			r.skip(t, cs, k, "this machine is too slow to tell", true)
		default:
			r.mu.Lock()
			defer r.mu.Unlock()
			r.again = append(r.again, undecided{cs, k})
			t.Log("this machine is too slow to tell: run again when the others are done")
		}
	})
}

// hangs reports that the case does not end, with its goroutines unless it has failed before.
func (c *C) hangs() {
	c.mu.Lock()
	failed := c.failures > 0
	c.mu.Unlock()
	where := "After it failed."
	if !failed {
		where = "Its goroutines:\n" + stacks(c.id)
	}
	c.errorf("the case hangs, after %v. %s", time.Since(c.begun).Round(time.Millisecond), where)
}

// recovered turns a panic of the case into a failure.
func (c *C) recovered() {
	if p := recover(); p != nil {
		c.errorf("panic: %v\n%s", p, debug.Stack())
	}
}

// over ends the reporting: what a case that was left behind still says is lost. It says
// whether the case came to no verdict.
func (c *C) over() (undecided bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	return c.undecided && c.failures == 0
}

// errorf reports a failure. Of a case that has come to no verdict before it only logs it: it may follow from what was
// excused, and the case is run again.
func (c *C) errorf(format string, args ...any) {
	c.tb.Helper()
	c.mu.Lock()
	excused := c.undecided && c.failures == 0
	c.mu.Unlock()
	if excused {
		c.logf("not counted, as the case had come to no verdict: "+format, args...)
		return
	}
	c.proven(format, args...)
}

// proven reports a failure whatever came to no verdict before: one that no machine brings about by being late. It adds the
// sentence that the case enforces if it is the first, and how late this machine was if that may have to do with it.
func (c *C) proven(format string, args ...any) {
	c.tb.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures++
	if c.closed || c.failures > 10 {
		return
	}
	text := fmt.Sprintf(format, args...)
	if c.failures == 1 {
		text += fmt.Sprintf("\n\tpromise %d, %s: %s", c.cs.promise, promises[c.cs.promise], c.cs.says)
	}
	if late := c.late.Worst(c.begun); late > 100*time.Millisecond {
		text += fmt.Sprintf("\n\tthis machine was late by up to %v", late)
	}
	c.tb.Error(text)
	if c.b.failOnce {
		c.cancel()
	}
}

// fatalf ends the goroutine that calls it, and the rest of the case soon.
func (c *C) fatalf(format string, args ...any) {
	c.tb.Helper()
	c.errorf(format, args...)
	c.cancel()
	runtime.Goexit()
}

func (c *C) logf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.tb.Logf(format, args...)
	}
}

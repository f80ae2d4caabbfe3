package faults

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"sync"
	"time"

	"github.com/seed80cd6120/locker/internal/faults/history"
	"github.com/seed80cd6120/locker/internal/labelled"
	"github.com/seed80cd6120/locker/internal/proxy"
)

// abort ends all users, as if they were killed, and frees what a row that failed has left.
func (x *Exam) abort() {
	x.mu.Lock()
	procs, nets, players := x.procs, x.nets, x.players
	x.procs, x.nets, x.players = nil, nil, nil
	x.mu.Unlock()
	for _, p := range procs {
		x.Kill(p)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, p := range players {
		x.rec.Add(history.Event{Kind: history.Died, Proc: p.Name}) // what it holds to the end is not proven further
		_ = p.Close(ctx)
	}
	for _, n := range nets {
		_ = n.Close()
	}
	_ = x.fence.Close()
}

// unfinished is said where safe has found something.
const unfinished = "this is of a row that was to begin again, because the machine was late"

// safe ends a row that begins again and fails it for what no machine that is late excuses: two who held at once, and
// tokens out of order. It returns whether there was nothing of that.
func (x *Exam) safe() bool {
	x.Helper()
	x.abort()
	x.Must(x.rec.Close())
	h, err := history.Read(filepath.Join(x.dir, "*.jsonl"))
	x.Must(err)
	excludes, rises := x.exclusion(h.Sweep()), x.tokens()
	if !excludes || !rises {
		x.Errorf("%s", unfinished)
		x.keep()
		return false
	}
	return true
}

// exclusion reports what the sweep has found; it returns whether that was nothing. A lock that does not tell its holders of a
// loss cannot keep them from overlapping.
func (x *Exam) exclusion(swept history.Swept) bool {
	x.Helper()
	return !x.Backend.Offers.Lost || x.none("history", swept.Bad())
}

// tokens reports what the resource has found; it returns whether that was nothing.
func (x *Exam) tokens() bool {
	x.Helper()
	return !x.Backend.Offers.Tokens || x.none("resource", x.res.Violations())
}

// finish asks the four questions.
func (x *Exam) finish() {
	x.Helper()
	if x.Failed() {
		return // the rest would only repeat it
	}
	x.Must(x.WaitReady(x.Ctx))
	for _, n := range x.nets {
		n.Heal()
	}
	clean := x.tidyWhileOpen()
	x.closeAll()
	x.disconnected()
	if clean { // or it would only repeat it
		x.tidy()
	}
	h := x.judge()
	if !x.Failed() {
		measure(x.Backend.Name, h)
	}
	x.mu.Lock()
	x.players, x.procs = nil, nil
	x.mu.Unlock()
	x.abort()
	if x.Backend.Offers.Tidy {
		x.quiet()
	}
}

// closeAll closes all users; the third question is asked of Close, too.
func (x *Exam) closeAll() {
	x.Helper()
	const within = 15 * time.Second
	var all sync.WaitGroup
	start := time.Now()
	errs := make([]error, len(x.players)+len(x.procs))
	for i, p := range x.players {
		all.Go(func() { errs[i] = p.Close(x.Within(within)) })
	}
	all.Wait()
	x.Soon("close", start, within)
	for i, p := range x.procs {
		all.Go(func() { errs[len(x.players)+i] = p.Close(within) })
	}
	all.Wait()
	for _, err := range errs {
		x.wasClosed(start, err)
	}
}

// wasClosed asserts that a Close, which began then, succeeded.
func (x *Exam) wasClosed(began time.Time, err error) {
	x.Helper()
	switch {
	case err == nil || !x.Backend.Offers.Tidy:
	case errors.Is(err, errUnclean):
		x.Errorf("close: %v", err)
	default:
		x.unlessLate(began, "close: %v", err)
	}
}

// tidyWhileOpen waits until no claim is left on the servers, while the users are open; it returns whether that was so. Where the
// TTL is long enough it waits for less than that. Where it is not, a claim that nobody renews may go because its time is over.
func (x *Exam) tidyWhileOpen() bool {
	x.Helper()
	within, list := x.Backend.Death+x.patience, x.Litter
	if x.Access.TTL >= believing {
		within = min(within, x.Access.TTL*2/3)
	}
	if x.Claims != nil {
		list = x.Claims
	}
	began := time.Now()
	left := x.left(list, within)
	if left != "" {
		x.unlessLate(began, "before the users were closed there was %s", left)
	}
	return left == ""
}

// tidy waits until nothing is left on the servers.
func (x *Exam) tidy() {
	x.Helper()
	if left := x.left(x.Litter, x.Backend.Death+x.patience); left != "" {
		x.Errorf("there is %s", left)
	}
}

// left waits until list has nothing of any name; it returns what it has of the first of which that is not so within some time.
func (x *Exam) left(list func(context.Context, string) ([]string, error), within time.Duration) string {
	if x.Litter == nil || x.Untidy || !x.Backend.Offers.Tidy {
		return ""
	}
	began := time.Now()
	for _, name := range x.names {
		var left []string
		var err error
		if !goes(began, within, func() bool { left, err = list(x.Within(10*time.Second), name); return err == nil && len(left) == 0 }) {
			return fmt.Sprintf("left on the servers of %q: %q %v", name, left, err)
		}
	}
	return ""
}

// disconnected waits until the users, who are closed, have ended all their connections to a proxy.
func (x *Exam) disconnected() {
	x.Helper()
	if !x.Backend.Offers.Tidy {
		return
	}
	began := time.Now()
	var open []string
	if !goes(began, 2*x.patience, func() bool {
		open = nil
		for _, n := range x.nets {
			n.Each(func(p *proxy.Proxy) { open = append(open, p.LeftOpen()...) })
		}
		return len(open) == 0
	}) {
		x.unlessLate(began, "%d connections are open %v after the users were closed: %q", len(open), time.Since(began), open)
	}
}

// goes looks until something is gone; it returns false if it is not within some time since it began, nor in the two seconds after a
// machine stood still.
func goes(began time.Time, within time.Duration, gone func() bool) bool {
	for look := 1; !gone(); look++ {
		if time.Since(began) > within && look >= 40 {
			return false
		}
		time.Sleep(50 * time.Millisecond)
	}
	return true
}

// judge reads the history.
func (x *Exam) judge() *history.History {
	x.Helper()
	x.Must(x.rec.Close())
	h, err := history.Read(filepath.Join(x.dir, "*.jsonl"))
	x.Must(err)
	swept := h.Sweep()
	sound := x.exclusion(swept)
	v, err := h.Check(x.Backend.Death+2*time.Second, 5*time.Minute, x.pictures())
	x.Must(err)
	if !v.Legal && x.Backend.Offers.Lost {
		x.Errorf("porcupine refuses the history; see %s", v.Picture)
		sound = false
	}
	if v.Unsure {
		x.Errorf("porcupine had no time to decide")
	}
	excused := 0
	for _, o := range swept.Overlaps {
		if o.Excused {
			excused++
			x.Logf("as promised, the fence told two apart: %v", o)
		}
	}
	if x.TwoHold && excused == 0 {
		x.Errorf("the row was to show two holders at once, and did not")
	}
	if rises := x.tokens(); !rises || !sound {
		x.keep()
	}
	for _, check := range x.checks {
		check(h)
	}
	for _, g := range gaps(h) {
		x.Logf("%v", g)
	}
	return h
}

// pictures returns the folder for what outlives the test.
func (x *Exam) pictures() string {
	return cmp.Or(x.Pictures, os.Getenv("LOCKER_FAULTS_DIR"), os.TempDir())
}

// keep copies the history to where pictures are, for whoever is to find out what it was.
func (x *Exam) keep() {
	x.Helper()
	to, err := os.MkdirTemp(x.pictures(), "history-"+x.Backend.Name+"-")
	if err == nil {
		err = os.CopyFS(to, os.DirFS(x.dir))
	}
	x.Logf("the history is kept in %s (%v)", to, err)
}

// none reports what was found, or as much of it as anybody reads; it returns whether that was nothing.
func (x *Exam) none(what string, found []string) bool {
	x.Helper()
	const most = 10
	for _, f := range found[:min(most, len(found))] {
		x.Errorf("%s: %s", what, f)
	}
	if more := len(found) - most; more > 0 {
		x.Errorf("%s: and %d more", what, more)
	}
	return len(found) == 0
}

// quiet waits until no goroutine is left that this row has started.
func (x *Exam) quiet() {
	x.Helper()
	pprof.SetGoroutineLabels(context.Background())
	var left string
	const pause = 20 * time.Millisecond
	for range x.patience / pause {
		if left, _ = labelled.Goroutines("exam", x.label); left == "" {
			return
		}
		time.Sleep(pause)
	}
	x.Errorf("goroutines are left:\n%s", left)
}

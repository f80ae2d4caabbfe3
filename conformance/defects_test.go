package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/child"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/lateness"
	"github.com/seed80cd6120/locker/internal/mustfail"
	"github.com/seed80cd6120/locker/internal/underway"
)

// A test that cannot fail is worth nothing. Here every case of the suite is shown
// to fail, with the sentence that it enforces, for a lock that has just the defect
// it is there to find.
func TestDefects(t *testing.T) {
	if address := os.Getenv(childEnv); address != "" {
		name, _, _ := strings.Cut(address, "|")
		d := find(t, name)
		b := d.apply()
		Run(t, b)
	}
	if testing.Short() {
		t.Skip("most cases find a defect by waiting for what does not come")
	}
	late, giveBack := lateness.Share()
	defer giveBack()
	var all sync.WaitGroup
	var together underway.Group
	begun := make(chan struct{}) // closed when all have begun
	var alone sync.Mutex
	slots := make(chan struct{}, 24) // most of them wait
	covered := make(map[string]bool)
	for _, d := range defects() {
		for _, name := range strings.Fields(d.cases) {
			cs, k := caseNamed(t, name)
			covered[cs.name] = true
			late.Calm(func() bool { return len(slots) > 0 })
			slots <- struct{}{}
			together.Begin()
			leave := sync.OnceFunc(func() {
				<-slots
				together.End()
			})
			all.Go(func() {
				defer leave()
				t.Run(d.name+"/"+name, func(t *testing.T) {
					if found, _ := finds(t, &d, cs, k, late, 7*time.Second); found {
						return
					}
					// On a machine under load the suite gives more time, to be fair, and may
					// miss a defect of time. It is looked for again without company.
					leave()
					<-begun
					<-together.None()
					alone.Lock()
					defer alone.Unlock()
					for try := 0; ; try++ {
						end := time.Now().Add(5 * time.Second)
						late.Calm(func() bool { return time.Now().Before(end) })
						start, limit := time.Now(), time.Duration(12+5*min(try, tries))*time.Second
						found, passed := finds(t, &d, cs, k, late, limit)
						if found {
							return
						}
						by := late.Worst(start)
						if passed && try > 0 && (by <= tooLate || try >= tries) || !timeFor(t, limit) {
							t.Errorf("%s passes although: %s (this machine was late by %v)", cs.name, d.name, by)
							return
						}
					}
				})
			})
		}
	}
	close(begun)
	all.Wait()
	for _, cs := range cases {
		if !covered[cs.name] {
			t.Errorf("no defect shows that %s can fail", cs.name)
		}
	}
}

// A case that passes although there is a defect is run again so often, as long as this machine was late by more than tooLate. One
// that comes to no verdict is run again as long as there is time.
const (
	tries   = 4
	tooLate = 20 * time.Millisecond
)

// timeFor reports whether there is time for another try, which may need twice limit, before the test has to end.
func timeFor(t *testing.T, limit time.Duration) bool {
	deadline, ok := t.Deadline()
	return !ok || time.Until(deadline) > 2*limit+time.Minute
}

// finds runs the case against the defect and reports whether it failed, and whether it passed; neither if it came to no verdict.
func finds(t *testing.T, d *defect, cs *testCase, k *kind, late *lateness.Meter, limit time.Duration) (found, passed bool) {
	b := d.apply()
	b.RequireAll = false // a case that comes to no verdict has found nothing
	b.failOnce = true    // and one that has found the defect need not go on
	b.check(t)
	r := newRunner(&b)
	r.late, r.limit = late, limit
	text, failed := mustfail.Run(t, func(t testing.TB) { r.run(t, cs, k) })
	switch {
	case !failed:
		text = fmt.Sprintf("%s passes although: %s (late by %v) %s", cs.name, d.name, late.Worst(time.Now().Add(-5*time.Second)), text)
	case !strings.Contains(text, cs.says):
		t.Errorf("the failure does not say what was broken:\n%s", text)
	}
	t.Log(text)
	return failed, !failed && len(r.again) == 0
}

// A lock that is slow where no promise says how quick it is does not fail, nor does one whose servers answer late or not
// at all on a machine that is late.
func TestSlowIsNotWrong(t *testing.T) {
	all := slowOnes()
	if address := os.Getenv(childEnv); address != "" {
		name, _, _ := strings.Cut(address, "|")
		Run(t, all[slices.IndexFunc(all, func(s slowOne) bool { return s.name == name })].apply())
	}
	if testing.Short() {
		t.Skip("takes the time of a death")
	}
	onTime, giveBack := lateness.Share()
	defer giveBack()
	late := alwaysLate(t)
	var wg sync.WaitGroup
	for _, s := range all {
		for _, name := range strings.Fields(s.cases) {
			cs, k := caseNamed(t, name)
			meter := onTime
			if s.late {
				meter = late
			}
			wg.Go(func() {
				t.Run(s.name+"/"+name, func(t *testing.T) {
					if found, _ := finds(t, &s.defect, cs, k, meter, caseLimit); found {
						t.Errorf("%s fails only because: %s", name, s.name)
					}
				})
			})
		}
	}
	wg.Wait()
}

// alwaysLate returns a meter to which this machine has been late all the while, by half a second and more.
func alwaysLate(t *testing.T) *lateness.Meter {
	m := lateness.Start(lateness.Step)
	m.Stop()
	eventually.Is(t, "the machine is late", func() bool { return m.Worst(time.Now()) > 600*time.Millisecond })
	return m
}

// slowOne is a defect that is none, also not on a machine that is on time unless late says that it is one then.
type slowOne struct {
	defect
	late bool
}

func slowOnes() []slowOne {
	unanswered := errors.New("no answer")
	return []slowOne{
		{defect: defect{
			name:  "releases slowly",
			cases: "Death/KilledHolderOfMany",
			driver: bend(bent{release: func(next whole, ctx context.Context, c *driver.Claim) error {
				time.Sleep(150 * time.Millisecond)
				return next.Release(ctx, c)
			}}),
		}},
		{defect: defect{
			name:  "each round trip takes long",
			cases: "Cheap/WokenByTheServer HandOver/OthersWait",
			driver: bend(bent{
				acquire: func(next whole, ctx context.Context, c *driver.Claim) (driver.Grant, error) {
					g, err := next.Acquire(ctx, c)
					time.Sleep(250 * time.Millisecond)
					return g, err
				},
				release: func(next whole, ctx context.Context, c *driver.Claim) error {
					time.Sleep(250 * time.Millisecond)
					return next.Release(ctx, c)
				},
			}),
		}},
		{defect: defect{
			name:  "waiters ask all the while, and releases take long while there are many",
			cases: "Cheap/NoHerd",
			driver: func() func(whole) *bent {
				var waiting atomic.Int64
				return func(whole) *bent {
					return &bent{
						acquire: func(next whole, ctx context.Context, c *driver.Claim) (driver.Grant, error) {
							waiting.Add(1)
							defer waiting.Add(-1)
							asking, stop := context.WithCancel(ctx)
							defer stop()
							go func() {
								for pause := rand.N(100 * time.Millisecond); asking.Err() == nil; pause = 100 * time.Millisecond {
									time.Sleep(pause)
									_, _ = next.Look(asking, c.Name)
								}
							}()
							return next.Acquire(ctx, c)
						},
						release: func(next whole, ctx context.Context, c *driver.Claim) error {
							if waiting.Load() > 15 {
								time.Sleep(time.Second)
							}
							return next.Release(ctx, c)
						},
					}
				}
			},
		}},
		{defect: defect{
			name:  "a request reaches the server after its caller has left",
			cases: "Several/AllOrNone",
			driver: func() func(whole) *bent {
				return func(whole) *bent {
					taken := make(chan struct{}) // closed when the client has taken a name
					hasTaken := sync.OnceFunc(func() { close(taken) })
					return &bent{
						traits: func(t *driver.Traits) { t.Prompt = false },
						acquire: func(next whole, ctx context.Context, c *driver.Claim) (driver.Grant, error) {
							if end, ok := ctx.Deadline(); ok && time.Until(end) < time.Second {
								select {
								case <-taken:
								case <-time.After(time.Second):
								}
								return next.Acquire(context.WithoutCancel(ctx), c)
							}
							g, err := next.Acquire(ctx, c)
							if err == nil && c.Wait {
								hasTaken()
							}
							return g, err
						},
					}
				}
			},
		}},
		{defect: defect{
			name:  "an answer that came late is taken when its lease is nearly over, which ends before the release",
			cases: "Loss/LateAnswer",
			driver: func() func(whole) *bent {
				return func(whole) *bent {
					isLate := func(c *driver.Claim) bool { return c.TTL == remoteBackend().TTL && strings.HasSuffix(c.Name, "/x") }
					return &bent{
						acquire: func(next whole, ctx context.Context, c *driver.Claim) (driver.Grant, error) {
							begun := time.Now()
							g, err := next.Acquire(ctx, c)
							if isLate(c) && time.Since(begun) > c.TTL/4 {
								time.Sleep(g.Until.Sub(locker.SystemClock().Now()) - c.TTL/7)
							}
							return g, err
						},
						renew: func(next whole, ctx context.Context, claims []*driver.Claim, report report) {
							if slices.ContainsFunc(claims, isLate) {
								time.Sleep(claims[0].TTL)
							}
							next.Renew(ctx, claims, report)
						},
						release: func(next whole, ctx context.Context, c *driver.Claim) error {
							if isLate(c) {
								time.Sleep(c.TTL / 4)
							}
							return next.Release(ctx, c)
						},
					}
				}
			},
		}},
		{defect: defect{
			name:  "the server stands still for a while",
			cases: "Exclusion/RenewedWhileHeld",
			driver: func() func(whole) *bent {
				over := sync.OnceValue(func() time.Time { return time.Now().Add(remoteBackend().TTL) }) // from the first renewal on
				return func(whole) *bent {
					return &bent{renew: func(next whole, ctx context.Context, claims []*driver.Claim, report report) {
						if time.Now().After(over()) {
							next.Renew(ctx, claims, report)
						}
					}}
				}
			},
		}},
		{defect: defect{
			name:  "the first request of every other client takes long",
			cases: "Fair/Lockers",
			driver: func() func(whole) *bent {
				var clients atomic.Int64
				return func(whole) *bent {
					first := sync.OnceFunc(func() { time.Sleep(time.Duration(clients.Add(1)%2) * time.Second) })
					return &bent{acquire: func(next whole, ctx context.Context, c *driver.Claim) (driver.Grant, error) {
						first()
						return next.Acquire(ctx, c)
					}}
				}
			},
		}},
		{defect: defect{
			name:  "some server does not answer, so that renewals to it are under way for a while",
			cases: "Close/StopsGoroutines",
			driver: bend(bent{
				traits: func(t *driver.Traits) { t.Check = 100 * time.Millisecond },
				renew: func(next whole, ctx context.Context, claims []*driver.Claim, report report) {
					go time.Sleep(3 * time.Second)
					next.Renew(ctx, claims, report)
				},
			}),
		}},
		{defect: defect{
			name:  "the server runs in this process, and is started for the case",
			cases: "Close/StopsGoroutines",
			backend: func(b *Backend) {
				start := b.New
				b.New = func(t testing.TB) *Harness {
					go func() { // one more goroutine of the server from time to time
						for t.Context().Err() == nil {
							go func() { <-t.Context().Done() }()
							time.Sleep(100 * time.Millisecond)
						}
					}()
					return start(t)
				}
			},
		}},
		{defect: defect{
			name:   "releases take longer than they are tried after a restart",
			cases:  "Fencing/AfterRestart Exclusion/Restart Outage/WaitersGoOn Outage/AcquireMeanwhile Outage/WorksAfterwards",
			server: func(s *server) { s.slow = 6 * time.Second },
		}},
		{defect: defect{
			name:   "the server serves some time after its start",
			cases:  "Ghosts/ServerRestarts Errors/ServerGone",
			server: func(s *server) { s.back = 15 * time.Second },
		}},
		{defect: defect{
			name:  "goroutines come to the queue in another order than they were started",
			cases: "Ghosts/QueuedGoroutine",
			client: func() func(Client) *rigged {
				return func(Client) *rigged {
					var calls atomic.Int64
					return &rigged{acquire: func(next Client, ctx ctx, name string, opts ...locker.AcquireOption) (Holding, error) {
						if calls.Add(1) == 2 { // the first that waits
							time.Sleep(time.Second)
						}
						return next.Acquire(ctx, name, opts...)
					}}
				}
			},
		}},
		{defect: defect{
			name:  "nobody sees when waiters have queued, and that takes a while",
			cases: "Mixed/InOrder Mixed/BehindPermits",
			driver: bend(bent{acquire: func(next whole, ctx context.Context, c *driver.Claim) (driver.Grant, error) {
				if c.Wait {
					time.Sleep(rand.N(time.Second))
				}
				return next.Acquire(ctx, c)
			}}),
			backend: func(b *Backend) { b.Inspect = false },
		}},
		{defect: defect{
			name:  "several names take longer than their lease",
			cases: "Several/Context",
			api: func(a *api) {
				all, calls := a.acquireAll, 0
				a.acquireAll = func(ctx context.Context, l locker.Locker, names []string, opts ...locker.AcquireOption) (locker.Locks, error) {
					if calls++; calls == 4 { // the first with a lease
						time.Sleep(remoteBackend().TTL)
						return nil, locker.ErrLost
					}
					return all(ctx, l, names, opts...)
				}
			},
		}},
		{late: true, defect: defect{
			name:  "some acquisitions get no answer",
			cases: "Fair/NobodyStarves",
			client: rig(rigged{acquire: func(next Client, ctx ctx, name string, opts ...locker.AcquireOption) (Holding, error) {
				if rand.IntN(4) == 0 {
					return nil, unanswered
				}
				return next.Acquire(ctx, name, opts...)
			}}),
		}},
		{late: true, defect: defect{
			name:  "releases get no answer and go on in the background",
			cases: "Permits/KofN",
			client: rig(rigged{holding: func(h Holding) Holding {
				return &twisted{Holding: h, release: func(ctx context.Context) error {
					time.AfterFunc(time.Second, func() { _ = h.Release(ctx) })
					return unanswered
				}}
			}}),
		}},
		{late: true, defect: defect{
			name:  "a release takes very long",
			cases: "Release/EndedContext",
			client: func() func(Client) *rigged {
				long := soon + time.Second // for the first
				return func(Client) *rigged {
					return &rigged{holding: func(h Holding) Holding {
						return &twisted{Holding: h, release: func(ctx context.Context) error {
							time.Sleep(long)
							long = 0
							return h.Release(ctx)
						}}
					}}
				}
			},
		}},
		{late: true, defect: defect{
			name:  "the release of a leader gets no answer",
			cases: "Lead/Returns",
			api: func(a *api) {
				a.lead = func(ctx context.Context, l locker.Locker, name string, fn work, opts ...locker.AcquireOption) error {
					if err := locker.Lead(ctx, l, name, fn, opts...); err != nil {
						return err
					}
					return unanswered
				}
			},
		}},
		{late: true, defect: defect{
			name:  "a look at the server gets no answer",
			cases: "Litter/UsedNames",
			harness: func(h *Harness) {
				h.Leftovers = func(context.Context, string) ([]string, error) { return nil, unanswered }
			},
		}},
	}
}

// caseNamed returns a case and the kind for which it is to be run: the one that follows the
// case's name, or else its first.
func caseNamed(t testing.TB, name string) (*testCase, *kind) {
	t.Helper()
	for _, cs := range cases {
		if cs.name == name && len(cs.kinds) == 0 {
			return cs, nil
		}
		for _, k := range cs.kinds {
			if cs.name == name || cs.title(k) == name {
				return cs, k
			}
		}
	}
	t.Fatalf("no case is named %q", name)
	return nil, nil
}

func find(t testing.TB, name string) *defect {
	all := defects()
	i := slices.IndexFunc(all, func(d defect) bool { return d.name == name })
	if i < 0 {
		t.Fatalf("no defect is named %q", name)
	}
	return &all[i]
}

// runnerOf returns a runner for cases one by one, which [runner.all] otherwise gives its meter.
func runnerOf(t *testing.T, b *Backend) *runner {
	b.check(t)
	r := newRunner(b)
	var giveBack func()
	r.late, giveBack = lateness.Share()
	t.Cleanup(giveBack)
	return r
}

// A case that hangs is ended by the watchdog, which shows where.
func TestWatchdog(t *testing.T) {
	b := remoteBackend()
	r := runnerOf(t, &b)
	r.limit = 200 * time.Millisecond
	block := make(chan struct{})
	text, _ := mustfail.Run(t, func(t testing.TB) {
		r.run(t, &testCase{name: "X/Hangs", promise: 6, says: "Every call returns.", run: func(c *C) { <-block }}, nil)
		close(block)
	})
	for _, want := range []string{"hangs", "Every call returns.", "TestWatchdog.func"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in:\n%s", want, text)
		}
	}
}

// A case has more time where the machine is late: what is to be done at its end is not cut short.
func TestMoreTimeOnALateMachine(t *testing.T) {
	b := remoteBackend()
	r := runnerOf(t, &b)
	r.limit = 200 * time.Millisecond
	r.late = lateness.Start(time.Nanosecond) // to it every machine is late
	defer r.late.Stop()
	r.run(t, &testCase{name: "X/Long", promise: 6, says: "Every call returns.", run: func(c *C) {
		select {
		case <-c.ctx.Done():
			if took := time.Since(c.begun); took < r.limit-r.limit/8+20*time.Millisecond { // the least that is added
				c.errorf("ended after %v", took)
			}
		case <-time.After(2 * r.limit):
		}
	}}, nil)
}

func TestPanicIsFailure(t *testing.T) {
	b := remoteBackend()
	r := runnerOf(t, &b)
	text, failed := mustfail.Run(t, func(t testing.TB) {
		r.run(t, &testCase{name: "X/Panics", promise: 7, says: "Twice is harmless.", run: func(c *C) { panic("boo") }}, nil)
	})
	if !failed || !strings.Contains(text, "boo") {
		t.Error(text)
	}
}

// Every case has a harness of its own.
func TestFreshHarness(t *testing.T) {
	made := 0
	b := Backend{New: func(t testing.TB) *Harness { made++; return memoryHarness(t) }}
	r := runnerOf(t, &b)
	for i, name := range []string{"Release/Twice", "Names/Name", "Release/Twice"} {
		cs, k := caseNamed(t, name)
		r.run(t, cs, k)
		if made != i+1 {
			t.Errorf("%d harnesses for %d cases", made, i+1)
		}
	}
}

// What cannot be run is skipped and counted, or fails if everything is required.
func TestNotRun(t *testing.T) {
	lost, _ := caseNamed(t, "Loss/StaysLost")
	for _, x := range []struct {
		cs   *testCase
		kind *kind
		why  string
	}{
		{lost, sharing, "Harness.OpenLink"},
		{&testCase{name: "X/Undecided", promise: 1, says: "x", run: (*C).tooSlow}, nil, "too slow"},
	} {
		for _, all := range []bool{false, true} {
			b := Backend{RequireAll: all, New: memoryHarness}
			r := runnerOf(t, &b)
			r.last = true // as if it was run again
			text, failed := mustfail.Run(t, func(t testing.TB) { r.run(t, x.cs, x.kind) })
			if failed != all || !strings.Contains(text, x.why) {
				t.Errorf("%s, RequireAll %v: failed %v: %s", x.cs.name, all, failed, text)
			}
			if !strings.Contains(r.summary(), x.cs.title(x.kind)) {
				t.Errorf("summary: %s", r.summary())
			}
		}
	}
}

// A case that comes to no verdict is run again when the others are done.
func TestUndecidedIsRunAgain(t *testing.T) {
	b := Backend{RequireAll: true, New: memoryHarness}
	b.check(t)
	r := newRunner(&b)
	var order []string
	slow := &testCase{name: "X/Slow", promise: 1, says: "x", alone: true, run: func(c *C) {
		if order = append(order, "slow"); len(order) == 1 {
			c.tooSlow()
		}
	}}
	other := &testCase{name: "X/Other", promise: 1, says: "x", alone: true, run: func(*C) { order = append(order, "other") }}
	r.cases = []*testCase{slow, other}
	r.all(t)
	if want := []string{"slow", "other", "slow"}; !slices.Equal(order, want) {
		t.Errorf("run were %v, want %v", order, want)
	}
	if s := r.summary(); s != "" {
		t.Error(s)
	}
}

// An error that no server answered, also one that the time of the case was over, is no verdict if this machine was late by much. It is
// a failure if the machine was not, or if the error says how it stands with the lock.
func TestNoAnswerIsUndecided(t *testing.T) {
	for _, x := range []struct {
		late, over bool
		err        error
		undecided  bool
	}{
		{false, false, errors.New("no answer"), false},
		{true, false, errors.New("no answer"), true},
		{false, true, context.Canceled, false},
		{true, true, context.Canceled, true},
		{true, false, locker.ErrLost, false},
		{true, false, nil, false},
	} {
		b := Backend{New: memoryHarness}
		b.check(t)
		r := newRunner(&b)
		r.late = lateness.Start(lateness.Step)
		if !x.late {
			r.late.Stop()
			r.late = lateness.Start(time.Hour) // for which no machine is late
		} else {
			r.late.Stop()
			time.Sleep(600 * time.Millisecond) // the meter has not run for so long
		}
		cs := &testCase{name: "X/NoAnswer", promise: 7, says: "x", run: func(c *C) {
			if x.over { // the time of the case is
				c.cancel()
			}
			c.expect(x.err, locker.ErrNotAcquired, "TryAcquire")
			c.errorf("what may follow from it")
		}}
		inChild := &testCase{name: "X/NoAnswerInChild", promise: 7, says: "x", run: func(c *C) {
			replies := make(chan reply, 1)
			replies <- reply{Err: fmt.Sprint("child: ", x.err)}
			(&asked{ch: &childProcess{c: c, process: new(child.Process)}, r: replies}).must("release")
		}}
		for _, cs := range []*testCase{cs, inChild} {
			if cs == inChild && (x.err == nil || x.over) {
				continue
			}
			r.again = nil
			text, failed := mustfail.Run(t, func(t testing.TB) { r.run(t, cs, nil) })
			if undecided := len(r.again) > 0; undecided != x.undecided || failed == x.undecided {
				t.Errorf("%s, %+v: undecided %t, failed %t: %s", cs.name, x, undecided, failed, text)
			}
		}
		if !x.late {
			r.late.Stop()
		}
	}
}

// What was seen to overlap is a failure, whatever came to no verdict before.
func TestOverlapIsNeverExcused(t *testing.T) {
	b := Backend{New: memoryHarness}
	r := runnerOf(t, &b)
	_, failed := mustfail.Run(t, func(t testing.TB) {
		r.run(t, &testCase{name: "X/Overlap", promise: 1, says: "x", run: func(c *C) {
			c.tooSlow()
			(&record{spans: []span{{Begin: 1, End: 3}, {Begin: 2, End: 4}}}).check(c, c.x)
		}}, nil)
	})
	if !failed {
		t.Error("it passes")
	}
}

// On a variant each case is run for one kind of lock, and no kind is forgotten.
func TestVariantCases(t *testing.T) {
	t.Setenv("LOCKER_CONFORMANCE", "")
	b := Backend{Variant: true, Shared: true, Permits: true, New: memoryHarness}
	b.check(t)
	some := newRunner(&b).cases
	if len(some) < len(cases)/5 || len(some) == len(cases) {
		t.Errorf("%d of %d cases", len(some), len(cases))
	}
	times := make(map[*kind]int)
	for _, cs := range some {
		kinds := cs.kindsOf(&b)
		if len(kinds) != 1 {
			t.Errorf("%s is run for %d kinds", cs.name, len(kinds))
		}
		times[kinds[0]]++
	}
	for _, k := range allKinds {
		if times[k] < 5 {
			t.Errorf("%d cases for %s locks", times[k], k.name)
		}
	}
	t.Setenv("LOCKER_CONFORMANCE", "full")
	if all := newRunner(&b).cases; len(all) != len(cases) {
		t.Errorf("in full %d of %d cases", len(all), len(cases))
	}
}

func TestCases(t *testing.T) {
	seen := make(map[string]bool)
	perPromise := make(map[int]int)
	for _, cs := range cases {
		if seen[cs.name] || cs.says == "" || promises[cs.promise] == "" || cs.run == nil {
			t.Errorf("%s: twice, or incomplete", cs.name)
		}
		seen[cs.name] = true
		perPromise[cs.promise]++
	}
	for n, what := range promises {
		if perPromise[n] < 2 {
			t.Errorf("promise %d, %s, has %d cases", n, what, perPromise[n])
		}
	}
	if len(seen) < 60 {
		t.Errorf("%d cases", len(seen))
	}
	t.Logf("%d cases: %v", len(seen), perPromise)
}

// Package checks holds lock libraries, those of others and this project's, to
// sentences that each can be kept or broken, and that a program can see. They are
// what docs/track-record.md is made of; the command one folder up makes it.
//
//	go test ./trackrecord/checks -run 'TestTrack/etcd.Mutex/neighbours' -v
//
// A check is run on a library only if the library claims what the check asks, in its
// documentation or by its signatures: one that takes a context claims to return when it
// ends. What is not claimed is "not offered". Each library is used as its
// documentation says, through the adapters of the comparison.
package checks

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/seed80cd6120/locker/faults"
	"github.com/seed80cd6120/locker/faults/fence"
	"github.com/seed80cd6120/locker/faults/history"
)

// Check is one sentence, and how it is seen to be kept.
type Check struct {
	ID       string
	Sentence string
	// Claim is what a library has to claim for the check to be fair.
	Claim Claim
	// Row is that of ../shared/FAULTS.md's list, as package faults has it; 0 if none.
	Row int
	Run func(x *faults.Exam)
}

// Claim is something that a library does or does not offer.
type Claim string

const (
	Basic    Claim = ""                   // every lock claims it
	Ctx      Claim = "a context"          // calls return when their ctx ends
	CtxError Claim = "the ctx's error"    // ... with an error by which one knows that
	Releases Claim = "a release with ctx" // Release takes a ctx and returns an error
	Told     Claim = "a signal of loss"
	Tokens   Claim = "fencing tokens"
	Majority Claim = "several servers" // of which a minority may fail
	Session  Claim = "sessions"        // waiters live by one
	Knows    Claim = "an error from a release that came too late"
	Deletes  Claim = "notice of a lock deleted by hand"
	Expires  Claim = "locks that expire by the server's clock"
	Wakes    Claim = "waiters that are woken by the server"
)

// Suite are those cases of the conformance suite that ask for nothing but what the claim
// says, so that it is fair to put them to others. The rest of the suite is about this
// project's own promises: its errors, options, leases, Close.
var Suite = []Check{
	{ID: "Exclusion/Goroutines", Sentence: "Goroutines that share a client never hold a name at once, and all get on."},
	{ID: "Exclusion/Lockers", Sentence: "Separate clients never hold a name at once, and all get on."},
	{ID: "Ghosts/CancelledAtRandom", Claim: Ctx, Sentence: "An acquisition that returned an error leaves nothing behind, whenever its ctx ended."},
	{ID: "Ghosts/DeadlineInFlight", Claim: Ctx, Sentence: "An acquisition whose time ran out while the server was being asked leaves nothing behind."},
	{ID: "Ghosts/CancelledInFront", Claim: Ctx, Sentence: "A waiter that gives up lets those behind it go on at once."},
	{ID: "Prompt/Deadline", Claim: CtxError, Sentence: "A wait ends within 100 ms of its deadline, with the ctx's error."},
	{ID: "Prompt/Cancel", Claim: CtxError, Sentence: "A wait ends within 100 ms of being cancelled, with the ctx's error."},
	{ID: "Prompt/QueuedGoroutine", Claim: CtxError, Sentence: "So does that of a goroutine behind others of its client."},
	{ID: "Cheap/IdleWaiters", Claim: Wakes, Sentence: "Waiting costs the server next to nothing."},
	{ID: "Cheap/NoHerd", Claim: Wakes, Sentence: "A release wakes one waiter and not the herd."},
}

// ttl of the locks in checks; the longer one where nothing is to expire meanwhile.
const (
	short = 2 * time.Second
	long  = 15 * time.Second
)

// All are the checks in the order of the table.
var All = []Check{
	{ID: "excludes-itself", Row: 40, Run: excludesItself,
		Sentence: "Two goroutines with one client do not hold a name at once."},
	{ID: "neighbours", Row: 36, Run: neighbours,
		Sentence: `A lock on "x/b" is free while "x" is held.`},
	{ID: "names-independent", Run: namesIndependent,
		Sentence: "Waiting for one name does not delay another of the same client."},
	{ID: "tokens-rise", Claim: Tokens, Run: tokensRise,
		Sentence: "Every holder has a token, greater than those of all before."},
	{ID: "told-before-next", Claim: Told, Row: 3, Run: toldBeforeNext,
		Sentence: "A holder that is cut off is told of the loss before the next is granted the lock (20 holders)."},
	{ID: "first-look", Claim: Told, Row: 2, Run: firstLook,
		Sentence: "A holder whose process was stopped for longer than its lock lasted learns it at the first look (12 holders)."},
	{ID: "told-of-deletion", Claim: Deletes, Row: 11, Run: toldOfDeletion,
		Sentence: "A holder whose lock was deleted by hand is told within two seconds."},
	{ID: "death-frees", Row: 43, Run: deathFrees,
		Sentence: "A killed holder's lock is free within its TTL and a second."},
	{ID: "no-ghost-lost-reply", Claim: Ctx, Row: 6, Run: noGhost,
		Sentence: "An acquisition whose reply was lost, and whose ctx ended, leaves nothing in the way of the next."},
	{ID: "no-ghost-cancelled", Claim: Ctx, Row: 25, Run: noGhostCancelled,
		Sentence: "Acquisitions cancelled half-way (100) leave nothing in the way of the next."},
	{ID: "lost-reply-repeated", Run: lostReply,
		Sentence: "An acquisition whose reply was lost once succeeds, or fails and leaves nothing."},
	{ID: "prompt-waiting", Claim: Ctx, Row: 9, Run: promptWaiting,
		Sentence: "A wait of one second ends within two, with the servers out of reach."},
	{ID: "prompt-cut-off-waiting", Claim: Ctx, Row: 9, Run: promptCutOffWaiting,
		Sentence: "A wait of two seconds that is cut off from the servers half-way ends within three."},
	{ID: "prompt-release", Claim: Releases, Run: promptRelease,
		Sentence: "A release with a ctx of one second returns within two, with the servers out of reach."},
	{ID: "ctx-error", Claim: CtxError, Run: ctxError,
		Sentence: "When the ctx of a wait ends, errors.Is finds context.DeadlineExceeded."},
	{ID: "release-not-anothers", Claim: Expires, Run: releaseNotAnothers,
		Sentence: "A release that comes after the loss does not free the next holder's lock."},
	{ID: "late-release-told", Claim: Knows, Run: lateReleaseTold,
		Sentence: "A release that comes after the loss says so."},
	{ID: "waiters-session", Claim: Session, Row: 10, Run: waitersSession,
		Sentence: "A waiter whose session died gets the lock or an error, and is not stuck."},
	{ID: "server-stalls", Row: 22, Run: serverStalls,
		Sentence: "When a server that stalled goes on, waiters get the lock, or an error, within ten seconds."},
	{ID: "black-hole", Claim: Majority, Row: 23, Run: blackHole,
		Sentence: "One server of five that accepts and never answers does not delay acquire and release by more than a second."},
	{ID: "node-forgets", Claim: Tokens, Row: 20, Run: nodeForgets,
		Sentence: "When servers forget a lock and another gets it, tokens tell the two apart."},
	{ID: "foreign-entries", Claim: "a queue in a shared tree", Run: foreignEntries,
		Sentence: "An entry in the queue that is not the library's own does no harm."},
}

func excludesItself(x *faults.Exam) {
	x.Access.TTL = long
	a, _ := x.Player("A")
	name := x.Lock()
	h := x.Acquired(a, name, 10*time.Second)
	// One that does not wait has shown it by then.
	ctx, cancel := context.WithTimeout(x.Ctx, time.Second)
	defer cancel()
	if other, err := a.Acquire(ctx, name); err == nil {
		if h.Look() == nil {
			x.Errorf("the second goroutine got the lock while the first held it")
		}
		_ = other.Release(x.Ctx)
	}
	_ = h.Release(x.Ctx)
}

func neighbours(x *faults.Exam) {
	x.Access.TTL = long
	a, _ := x.Player("A")
	b, _ := x.Player("B")
	name := x.Lock()
	h := x.Acquired(a, name+"/b", 10*time.Second)
	other, err := b.Acquire(x.Within(3*time.Second), name)
	if err != nil {
		x.Errorf("%q is not free while %q is held: %v", name, name+"/b", err)
	} else {
		_ = other.Release(x.Ctx)
	}
	_ = h.Release(x.Ctx)
}

func namesIndependent(x *faults.Exam) {
	x.Access.TTL = long
	a, _ := x.Player("A")
	b, _ := x.Player("B")
	name := x.Lock()
	h := x.Acquired(b, name, 10*time.Second)
	wait := x.Waits(a, name, 10*time.Second)
	start := time.Now()
	for range 5 {
		x.Released(x.Acquired(a, x.Lock(), 10*time.Second))
	}
	if took := time.Since(start); took > 2*time.Second {
		x.Errorf("five other names took %v", took)
	}
	x.Released(h)
	x.Released(x.Get(wait))
}

func tokensRise(x *faults.Exam) {
	a, _ := x.Player("A")
	b, _ := x.Player("B")
	name := x.Lock()
	var last int64
	for range 5 {
		for _, p := range []*faults.Player{a, b} {
			h := x.Acquired(p, name, 10*time.Second)
			if t := h.Lock.Token(); t <= last {
				x.Errorf("token %d after %d", t, last)
			} else {
				last = t
			}
			x.Released(h)
		}
	}
}

func toldBeforeNext(x *faults.Exam) {
	x.Access.TTL = short
	const n = 20
	var cut []*faults.Network
	var waits []<-chan faults.Got
	var held []*faults.Holding
	for range n {
		a, net := x.Player("A")
		b, _ := x.Player("B")
		name := x.Lock()
		held = append(held, x.Acquired(a, name, 10*time.Second))
		waits = append(waits, x.Waits(b, name, 30*time.Second))
		cut = append(cut, net)
	}
	for _, net := range cut {
		net.Freeze()
		time.Sleep(short / 3 / n)
	}
	late, worst, stuck := 0, time.Duration(0), 0
	for i, w := range waits {
		got := <-w
		if got.Err != nil {
			stuck++ // another check's question
			continue
		}
		next := got.Holding
		for deadline := time.Now().Add(300 * time.Millisecond); held[i].LostAt() == 0 && time.Now().Before(deadline); {
			time.Sleep(10 * time.Millisecond)
		}
		if by := time.Duration(held[i].Alive() - next.Grant()); by > 0 {
			late, worst = late+1, max(worst, by)
		}
		_ = next.Release(x.Ctx)
	}
	if stuck > n/2 {
		x.Errorf("%d of %d waiters did not get the lock within 30s", stuck, n)
	}
	if late > 0 {
		x.Errorf("%d of %d holders believed in their lock after the next had it, for %v or more", late, n, worst.Round(time.Millisecond))
	}
}

func firstLook(x *faults.Exam) {
	x.Access.TTL = short
	const n = 12
	var procs []*faults.Process
	for range n {
		p, _ := x.Process("A")
		x.Taken(p, x.Lock(), 10*time.Second)
		procs = append(procs, p)
	}
	for _, p := range procs {
		x.Must(p.Stop())
		time.Sleep(short / 3 / n)
	}
	// Sessions may last a little longer than was asked for.
	time.Sleep(short + time.Second)
	went := map[string]int64{}
	for _, p := range procs {
		went[p.Name] = history.Now()
		x.Must(p.Continue())
	}
	time.Sleep(300 * time.Millisecond)
	x.Check(func(h *history.History) {
		stale := 0
		for _, l := range h.Holdings {
			if l.Alive > went[l.Proc] {
				stale++
			}
		}
		if stale > 0 {
			x.Errorf("%d of %d holders saw a context that was alive after the pause", stale, n)
		}
	})
}

func toldOfDeletion(x *faults.Exam) {
	x.Access.TTL = 5 * time.Second
	a, _ := x.Player("A")
	name := x.Lock()
	h := x.Acquired(a, name, 10*time.Second)
	x.Did("delete by hand", true, name, func() error { return x.Destroy(x.Within(10*time.Second), name) })
	select {
	case <-h.Lost():
	case <-time.After(2 * time.Second):
		x.Errorf("the holder was not told within 2s")
	}
	_ = h.Release(x.Ctx)
}

func deathFrees(x *faults.Exam) {
	x.Access.TTL = short
	p, _ := x.Process("A")
	b, _ := x.Player("B")
	name := x.Lock()
	x.Taken(p, name, 10*time.Second)
	wait := x.Waits(b, name, 30*time.Second)
	at := x.Kill(p)
	h := x.Get(wait)
	if took := time.Duration(h.Grant() - at); took > short+2*time.Second {
		x.Errorf("the lock was free after %v", took)
	}
	_ = h.Release(x.Ctx)
}

func noGhost(x *faults.Exam) {
	x.Access.TTL = long
	a, net := x.Player("A")
	b, _ := x.Player("B")
	x.Warm(a, b)
	name := x.Lock()
	net.FreezeDown()
	ctx, cancel := context.WithTimeout(x.Ctx, 700*time.Millisecond)
	defer cancel()
	if _, err := a.Acquire(ctx, name); err == nil {
		x.Errorf("acquired without a reply")
	}
	net.Heal()
	x.AtOnce(b, name, 5*time.Second)
}

func noGhostCancelled(x *faults.Exam) {
	x.Access.TTL = long
	a, net := x.Player("A")
	b, _ := x.Player("B")
	x.Warm(a, b)
	for _, p := range net.Proxies {
		p.Delay(2*time.Millisecond, 2*time.Millisecond)
	}
	var names []string
	for i := range 100 {
		name := x.Lock()
		ctx, cancel := context.WithTimeout(x.Ctx, time.Duration(i)*150*time.Microsecond)
		h, err := a.Acquire(ctx, name)
		cancel()
		if err == nil {
			_ = h.Release(x.Ctx)
			continue
		}
		names = append(names, name)
	}
	net.Heal()
	time.Sleep(3 * time.Second) // for what is cleaned up in the background
	stuck := 0
	for _, name := range names {
		ctx, cancel := context.WithTimeout(x.Ctx, time.Second)
		h, err := b.Acquire(ctx, name)
		cancel()
		if err != nil {
			stuck++
			continue
		}
		_ = h.Release(x.Ctx)
	}
	if stuck > 0 {
		x.Errorf("%d of %d names whose acquisition was cancelled are still taken three seconds later", stuck, len(names))
	}
}

func lostReply(x *faults.Exam) {
	x.Access.TTL = long
	a, net := x.Player("A")
	b, _ := x.Player("B")
	x.Warm(a, b)
	name := x.Lock()
	net.Proxies[0].SwallowReply(nil, 0)
	h, err := a.Acquire(x.Within(5*time.Second), name)
	if err == nil {
		x.Released(h)
	}
	start := time.Now()
	h, err2 := b.Acquire(x.Within(7*time.Second), name)
	if err2 != nil {
		x.Errorf("the acquisition ended with %v, and the name is still taken %v later", err, time.Since(start).Round(time.Second))
		return
	}
	_ = h.Release(x.Ctx)
}

func promptWaiting(x *faults.Exam) {
	x.Access.TTL = long
	a, net := x.Player("A")
	b, _ := x.Player("B")
	x.Warm(a)
	name := x.Lock()
	h := x.Acquired(b, name, 10*time.Second)
	net.Freeze()
	prompt(x, "the wait", time.Second, func(ctx context.Context) {
		if got, err := a.Acquire(ctx, name); err == nil {
			_ = got.Release(x.Ctx)
		}
	})
	net.Heal()
	_ = h.Release(x.Ctx)
}

func promptRelease(x *faults.Exam) {
	x.Access.TTL = long
	a, net := x.Player("A")
	h := x.Acquired(a, x.Lock(), 10*time.Second)
	net.Freeze()
	prompt(x, "the release", time.Second, func(ctx context.Context) { _ = h.Lock.Release(ctx) })
	net.Heal()
}

func promptCutOffWaiting(x *faults.Exam) {
	x.Access.TTL = long
	a, net := x.Player("A")
	b, _ := x.Player("B")
	x.Warm(a)
	name := x.Lock()
	h := x.Acquired(b, name, 10*time.Second)
	time.AfterFunc(time.Second, net.Freeze)
	prompt(x, "the wait", 2*time.Second, func(ctx context.Context) {
		if got, err := a.Acquire(ctx, name); err == nil {
			_ = got.Release(x.Ctx)
		}
	})
	net.Heal()
	_ = h.Release(x.Ctx)
}

func prompt(x *faults.Exam, what string, within time.Duration, call func(ctx context.Context)) {
	ctx, cancel := context.WithTimeout(x.Ctx, within)
	defer cancel()
	start := time.Now()
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		call(ctx)
	}()
	select {
	case <-returned:
		if took := time.Since(start); took > within+time.Second {
			x.Errorf("%s took %v with a ctx of %v", what, took.Round(100*time.Millisecond), within)
		}
	case <-time.After(within + 9*time.Second):
		x.Errorf("%s has not returned after %v with a ctx of %v", what, within+9*time.Second, within)
	}
}

func ctxError(x *faults.Exam) {
	x.Access.TTL = long
	a, _ := x.Player("A")
	b, _ := x.Player("B")
	name := x.Lock()
	h := x.Acquired(b, name, 10*time.Second)
	ctx, cancel := context.WithTimeout(x.Ctx, 500*time.Millisecond)
	defer cancel()
	if _, err := a.Acquire(ctx, name); !errors.Is(err, context.DeadlineExceeded) {
		x.Errorf("the error is %v", err)
	}
	_ = h.Release(x.Ctx)
}

func releaseNotAnothers(x *faults.Exam) {
	x.Access.TTL = long
	a, _ := x.Player("A")
	b, _ := x.Player("B")
	name := x.Lock()
	ha := x.Acquired(a, name, 10*time.Second)
	x.Did("clock jump", true, name, func() error { return x.Destroy(x.Within(10*time.Second), name) })
	hb := x.Acquired(b, name, 10*time.Second)
	_ = ha.Release(x.Within(5 * time.Second))
	ctx, cancel := context.WithTimeout(x.Ctx, time.Second)
	defer cancel()
	c, _ := x.Player("C")
	if h, err := c.Acquire(ctx, name); err == nil {
		x.Errorf("the late release freed the lock of another")
		_ = h.Release(x.Ctx)
	}
	_ = hb.Release(x.Ctx)
}

func lateReleaseTold(x *faults.Exam) {
	x.Access.TTL = long
	a, _ := x.Player("A")
	name := x.Lock()
	h := x.Acquired(a, name, 10*time.Second)
	x.Did("take away", true, name, func() error {
		if x.EndSession != nil {
			return x.EndSession(x.Within(10*time.Second), name, false)
		}
		return x.Destroy(x.Within(10*time.Second), name)
	})
	select {
	case <-h.Lost():
	case <-time.After(time.Second): // the library need not have a signal
	}
	if err := h.Release(x.Within(5 * time.Second)); err == nil {
		x.Errorf("the release of a lock that was gone said nil")
	}
}

func waitersSession(x *faults.Exam) {
	x.Access.TTL = short
	a, _ := x.Player("A")
	b, _ := x.Player("B")
	name := x.Lock()
	h := x.Acquired(a, name, 10*time.Second)
	wait := x.Waits(b, name, 20*time.Second)
	x.Did("end the waiter's session", false, "", func() error { return x.EndSession(x.Within(10*time.Second), name, true) })
	time.Sleep(500 * time.Millisecond)
	x.Released(h)
	select {
	case g := <-wait:
		if g.Err == nil {
			_ = g.Holding.Release(x.Ctx)
		}
	case <-time.After(8 * time.Second):
		x.Errorf("the waiter has neither the lock nor an error 8s after the release")
	}
}

func serverStalls(x *faults.Exam) {
	x.Access.TTL = short
	a, _ := x.Player("A")
	b, _ := x.Player("B")
	name := x.Lock()
	_ = x.Acquired(a, name, 10*time.Second)
	wait := x.Waits(b, name, time.Minute)
	for _, s := range x.All {
		x.Must(s.Pause())
	}
	time.Sleep(short + time.Second)
	for _, s := range x.All {
		x.Must(s.Resume())
	}
	x.Must(x.WaitReady(x.Ctx))
	// The holder's connection may have survived, and its lock with it.
	time.Sleep(500 * time.Millisecond)
	x.Close(a)
	select {
	case g := <-wait:
		if g.Err == nil {
			_ = g.Holding.Release(x.Ctx)
		}
	case <-time.After(10 * time.Second):
		x.Errorf("the waiter has neither the lock nor an error 10s later")
	}
}

func blackHole(x *faults.Exam) {
	x.Access.TTL = long
	a, net := x.Player("A")
	x.Warm(a)
	p := net.Proxies[0]
	p.BlackHole()
	p.Freeze()
	var worst time.Duration
	for range 5 {
		start := time.Now()
		h := x.Acquired(a, x.Lock(), 20*time.Second)
		_ = h.Release(x.Within(20 * time.Second))
		worst = max(worst, time.Since(start))
	}
	if worst > time.Second {
		x.Errorf("acquire and release took %v", worst.Round(100*time.Millisecond))
	}
	net.Heal()
}

func nodeForgets(x *faults.Exam) {
	x.Access.TTL = long
	a, _ := x.Player("A")
	b, _ := x.Player("B")
	x.Warm(b)
	name := x.Lock()
	ha := x.Acquired(a, name, 10*time.Second)
	forget := x.Destroy
	if x.Expire != nil {
		forget = x.Expire // on a majority, where there are several
	}
	x.Did("forget", true, name, func() error { return forget(x.Within(10*time.Second), name) })
	hb := x.Acquired(b, name, 10*time.Second)
	x.Until("the first has looked once more", 5*time.Second, func() bool { return ha.LostAt() != 0 || ha.Alive() > hb.Grant() })
	if err := hb.Work(); err != nil {
		x.Errorf("the second holder's write: %v", err)
	}
	if err := ha.Work(); !errors.Is(err, fence.ErrStale) {
		x.Errorf("the first holder's write: %v", err)
	}
	_ = hb.Release(x.Ctx)
}

func foreignEntries(x *faults.Exam) {
	x.Access.TTL = long
	a, _ := x.Player("A")
	name := x.Lock()
	h := x.Acquired(a, name, 10*time.Second)
	x.Untidy = true // what is planted stays
	x.Must(x.Plant(x.Within(10*time.Second), name, "x"))
	x.Released(h)
	panicked := func() (why string) {
		defer func() {
			if p := recover(); p != nil {
				why = "it panicked"
			}
		}()
		h, err := a.Acquire(x.Within(5*time.Second), name)
		if err != nil {
			return strings.TrimSpace(err.Error())
		}
		_ = h.Release(x.Ctx)
		return ""
	}()
	if panicked != "" {
		x.Errorf("the next acquisition: %s", panicked)
	}
}

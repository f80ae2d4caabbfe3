package checks

import (
	"time"

	"github.com/seed80cd6120/locker/internal/faults"
	"github.com/seed80cd6120/locker/internal/faults/history"
)

// How a holding ends that is not given back.

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

func closeFrees(x *faults.Exam) {
	x.Access.TTL = long
	a, _ := x.Player("A")
	b, _ := x.Player("B")
	name := x.Lock()
	x.Acquired(a, name, 10*time.Second)
	wait := x.Waits(b, name, 30*time.Second)
	closed := time.Now()
	x.Close(a)
	h := x.Get(wait)
	if took := time.Since(closed); took > 3*time.Second {
		x.Errorf("the lock was free %v after its holder's client was closed", took.Round(time.Millisecond))
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
	c, _ := x.Player("C")
	if granted(x, c, name) {
		x.Errorf("the late release freed the lock of another")
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

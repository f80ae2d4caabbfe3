package checks

import (
	"time"

	"github.com/seed80cd6120/locker/internal/faults"
	"github.com/seed80cd6120/locker/internal/faults/history"
	"github.com/seed80cd6120/locker/internal/stamp"
)

// How a holding ends that is not given back.

func toldBeforeNext(x *exam) {
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
		x.giveBack(next)
	}
	if stuck > n/2 {
		x.Errorf("%d of %d waiters did not get the lock within 30s", stuck, n)
	}
	if late > 0 {
		x.Errorf("%d of %d holders believed in their lock after the next had it, for %v or more", late, n, worst.Round(time.Millisecond))
	}
}

func firstLook(x *exam) {
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
		went[p.Name] = stamp.Now()
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

func toldOfDeletion(x *exam) {
	h := x.held(x.a)
	x.destroy("delete by hand")
	select {
	case <-h.Lost():
	case <-time.After(2 * time.Second):
		x.Errorf("the holder was not told within 2s")
	}
	x.giveBack(h)
}

func deathFrees(x *exam) {
	p, _ := x.Process("C")
	x.Taken(p, x.name, 10*time.Second)
	wait := x.Waits(x.b, x.name, 30*time.Second)
	at := x.Kill(p)
	h := x.Get(wait)
	if took := time.Duration(h.Grant() - at); took > short+2*time.Second {
		x.Errorf("the lock was free after %v", took)
	}
	x.giveBack(h)
}

func closeFrees(x *exam) {
	x.held(x.a)
	wait := x.Waits(x.b, x.name, 30*time.Second)
	closed := time.Now()
	x.Close(x.a)
	h := x.Get(wait)
	if took := time.Since(closed); took > 3*time.Second {
		x.Errorf("the lock was free %v after its holder's client was closed", took.Round(time.Millisecond))
	}
	x.giveBack(h)
}

func releaseNotAnothers(x *exam) {
	ha := x.held(x.a)
	x.destroy("clock jump")
	hb := x.held(x.b)
	_ = ha.Release(x.Within(5 * time.Second))
	c, _ := x.Player("C")
	if x.free(c, x.name) {
		x.Errorf("the late release freed the lock of another")
	}
	x.giveBack(hb)
}

func lateReleaseTold(x *exam) {
	h := x.held(x.a)
	if x.EndSession == nil {
		x.destroy("take away")
	} else {
		x.Did("take away", true, x.name, func() error { return x.EndSession(x.soon(), x.name, false) })
	}
	select {
	case <-h.Lost():
	case <-time.After(time.Second): // the library need not have a signal
	}
	if err := h.Release(x.Within(5 * time.Second)); err == nil {
		x.Errorf("the release of a lock that was gone said nil")
	}
}

func waitersSession(x *exam) {
	h := x.held(x.a)
	wait := x.Waits(x.b, x.name, 20*time.Second)
	x.Did("end the waiter's session", false, "", func() error { return x.EndSession(x.soon(), x.name, true) })
	time.Sleep(500 * time.Millisecond)
	x.Released(h)
	x.answered(wait, 8*time.Second)
}

func serverStalls(x *exam) {
	x.held(x.a)
	wait := x.Waits(x.b, x.name, time.Minute)
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
	x.Close(x.a)
	x.answered(wait, 10*time.Second)
}

package faults

import (
	"errors"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/faults/history"
	"github.com/seed80cd6120/locker/internal/stamp"
)

// What can happen to a holder's process.
var processRows = []Row{
	{Number: 1, Shows: []int{1, 2, 3}, Name: "paused", Quick: true, Run: paused,
		See: "its first look says lost; its late write is refused by token"},
	{Number: 2, Shows: []int{3}, Name: "stale-look", Run: staleLook,
		See: "Context().Err() is set at the first look after a pause around the deadline"},
	{Number: 43, Shows: []int{4}, Name: "killed", Quick: true, Run: func(x *Exam) { killed(x, 3) },
		See: "the next holder has the lock within TTL and a second"},
	{Number: 43, Shows: []int{4}, Name: "many-killed", Run: func(x *Exam) { killed(x, 12) },
		See: "the same for twelve holders, each killed at another point between two renewals"},
}

// The holder is stopped beyond its TTL and goes on after another was granted the lock.
func paused(x *Exam) {
	name := x.Lock()
	a, _ := x.Process("A")
	b, _ := x.Player("B")
	ra := x.Taken(a, name, 10*time.Second)
	if err := ra.Work(); err != nil {
		x.Errorf("the holder's write: %v", err)
	}
	wait := x.Waits(b, name, 30*time.Second)
	x.Did("stop A", false, "", a.Stop)
	hb := x.Get(wait)
	if x.Backend.Offers.Tokens && hb.Lock.Token() <= ra.Token {
		x.Errorf("the second holder has token %d, the first %d", hb.Lock.Token(), ra.Token)
	}
	if err := hb.Work(); err != nil {
		x.Errorf("the second holder's write: %v", err)
	}
	x.Must(a.Continue())
	x.lostByNow(ra)
	x.tooLate(ra.Work(), ra.Release(5*time.Second))
	x.StillHolds(hb, "the second holder")
	x.Released(hb)
}

// lostByNow asserts that one look says lost.
func (x *Exam) lostByNow(r *Remote) {
	x.Helper()
	if err := r.Look(); x.Backend.Offers.Lost && !errors.Is(err, locker.ErrLost) {
		x.Errorf("the first look after the loss said %v, want ErrLost", err)
	}
}

// Processes are stopped for as long as their locks last, each at another point between
// two renewals. Nobody else wants their locks, so that only their own clocks can tell.
func staleLook(x *Exam) {
	const n = 4
	var procs []*Process
	var held []*Remote
	for range n {
		p, _ := x.Process("A")
		procs = append(procs, p)
		held = append(held, x.Taken(p, x.Lock(), 10*time.Second))
	}
	for _, p := range procs {
		x.Must(p.Stop())
		time.Sleep(x.Backend.TTL / 3 / n)
	}
	time.Sleep(x.Backend.TTL)
	var went []int64
	for i, p := range procs {
		went = append(went, stamp.Now())
		x.Must(p.Continue())
		x.lostByNow(held[i])
	}
	x.Check(func(h *history.History) {
		for i, p := range procs {
			for _, l := range h.Holdings {
				if x.Backend.Offers.Lost && l.Proc == p.Name && l.Alive > went[i] {
					x.Errorf("a look %v after the pause of %v found the context of %v alive",
						time.Duration(l.Alive-went[i]), x.Backend.TTL, l)
				}
			}
		}
	})
}

// Holders are killed while others wait.
func killed(x *Exam, n int) {
	var procs []*Process
	var waits []<-chan Got
	for range n {
		name := x.Lock()
		a, _ := x.Process("A")
		b, _ := x.Player("B")
		x.Taken(a, name, 10*time.Second)
		waits = append(waits, x.Waits(b, name, 2*time.Minute)) // the others are yet to start
		procs = append(procs, a)
	}
	var died []int64
	for _, p := range procs {
		died = append(died, x.Kill(p))
		time.Sleep(x.Backend.TTL / 3 / time.Duration(n)) // at every point between two renewals
	}
	for i, w := range waits {
		hb := x.Get(w)
		x.grantedSoon(hb, died[i], x.Backend.Death+noise)
		x.Released(hb)
	}
}

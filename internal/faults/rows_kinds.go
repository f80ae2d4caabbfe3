package faults

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed80cd6120/locker/internal/faults/history"
)

// What can happen to those who share a name.
var kindRows = []Row{
	{Number: 46, Shows: []int{1, 4}, Name: "reader-killed", Quick: true, Run: readerKilled,
		See: "the readers who live keep the name; the writer behind them has it when the last of them lets go"},
	{Number: 47, Shows: []int{4}, Name: "writer-behind-dead-readers", Quick: true, Run: writerBehindDeadReaders,
		See: "the writer has the name within TTL and a second of the last death"},
	{Number: 48, Shows: []int{2}, Name: "permits-after-failover", Quick: true, Run: permitsAfterFailover, Fresh: true, For: []string{"redis-replica", "redis-sentinel"},
		See: "more hold than there are permits, which cannot be prevented; whoever then has the name alone has a greater token than all of them"},
}

// One of three readers is killed, while a writer waits.
func readerKilled(x *Exam) {
	name := x.Lock()
	a, _ := x.Process("A")
	b, _ := x.Player("B")
	c, _ := x.Player("C")
	w, _ := x.Player("W")
	x.Taken(a, name, 10*time.Second, history.Shared)
	hb := x.Acquired(b, name, 10*time.Second, history.Shared)
	hc := x.Acquired(c, name, 10*time.Second, history.Shared)
	wait := x.Waits(w, name, time.Minute)
	x.Kill(a)
	x.stillWaits(wait, hb, x.Backend.Death)
	for _, h := range []*Holding{hb, hc} {
		x.StillHolds(h, "a reader who lives")
	}
	x.Released(hb)
	released := time.Now()
	x.Released(hc)
	x.Released(x.GoesOn(wait, released, x.Backend.Death+2*time.Second, "the last release"))
}

// All readers are killed, one after the other, while a writer waits.
func writerBehindDeadReaders(x *Exam) {
	name := x.Lock()
	w, _ := x.Player("W")
	var readers []*Process
	for range 3 {
		p, _ := x.Process("A")
		x.Taken(p, name, 10*time.Second, history.Shared)
		readers = append(readers, p)
	}
	wait := x.Waits(w, name, time.Minute)
	var died int64
	for _, p := range readers {
		time.Sleep(x.Backend.TTL / 6) // at different points between two renewals
		died = x.Kill(p)
	}
	hw := x.Get(wait)
	x.grantedSoon(hw, died, x.Backend.Death+noise)
	x.Released(hw)
}

// The master dies with two permits of two that its replica never saw.
func permitsAfterFailover(x *Exam) {
	x.TwoHold = true
	x.Access.TTL = x.outlasting()
	name, a, b := x.pair()
	permit := history.Permits(1, 2)
	x.Warm(a, b)
	x.replicaStops()
	before := []*Holding{x.Acquired(a, name, 10*time.Second, permit), x.Acquired(a, name, 10*time.Second, permit)}
	a.net.Freeze() // or A hears of it before B has permits
	x.Did("fail over to a replica that never saw the permits", true, "", func() error {
		return x.failOverUnseen([]*Network{a.net, b.net})
	})
	after := []*Holding{x.Acquired(b, name, 10*time.Second, permit), x.Acquired(b, name, 10*time.Second, permit)}
	if before[0].hasLost() {
		x.again(before[0].user() + " lost the lock before another had it")
	}
	x.Until("more have been seen to hold than there are permits", 5*time.Second, func() bool {
		return before[0].LostAt() != 0 || before[0].Alive() > after[1].grant
	})
	for _, h := range after {
		x.Released(h)
	}
	alone := x.Acquired(b, name, 10*time.Second)
	for _, h := range append(before, after...) {
		if h.Lock.Token() >= alone.Lock.Token() {
			x.Errorf("token %d of a permit, then %d of the one who has the name alone", h.Lock.Token(), alone.Lock.Token())
		}
	}
	x.Fenced(before[0], alone)
	a.net.Heal()
	for _, h := range before {
		x.Told(h, x.Access.TTL+noise)
	}
	x.Released(alone)
	x.masterReturns()
}

// replicaStops has the replica see nothing of what its master is told from now on.
func (x *Exam) replicaStops() {
	x.Helper()
	master, replica := x.Replicated.Master, x.Replicated.Replicas[0]
	x.redis(master, "SET", "control", "seen")
	x.Until("the replica is in step", 10*time.Second, func() bool { return x.redis(replica, "GET", "control") == "seen" })
	x.Must(replica.Pause())
	x.redis(master, "CLIENT", "KILL", "TYPE", "replica") // what is on the wire would still arrive
	x.redis(master, "SET", "control", "unseen")
}

// failOverUnseen has the replica that was stopped take its master's place. It has what was there when it stopped, and
// nothing later.
func (x *Exam) failOverUnseen(nets []*Network) error {
	master, replica := x.Replicated.Master, x.Replicated.Replicas[0]
	if err := errors.Join(master.Kill(), replica.Resume()); err != nil {
		return err
	}
	if err := x.promote(x.Ctx, replica, nets); err != nil {
		return err
	}
	if v := x.redis(replica, "GET", "control"); v != "seen" {
		return fmt.Errorf("the replica has %v, want what was there before it was stopped, and nothing later", v)
	}
	return nil
}

// masterReturns starts the master again that was killed. It comes back with the locks that it had, until their TTL.
func (x *Exam) masterReturns() {
	x.Helper()
	x.Must(x.Replicated.Master.Restart(x.Within(30 * time.Second)))
	x.Litter = nil
}

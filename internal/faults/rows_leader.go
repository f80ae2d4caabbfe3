package faults

import (
	"time"

	"github.com/seed80cd6120/locker/internal/servers"
)

// What can happen to the leader of several servers.
var leaderRows = []Row{
	{Number: 14, Shows: []int{1, 14}, Name: "leader-stopped", Run: leaderStopped, For: []string{"etcd-3", "zookeeper-3"},
		See: "no two holders; lost if the lease went"},
	{Number: 15, Shows: []int{14}, Name: "leader-moved", Quick: true, Run: leaderMoved, For: []string{"etcd-3"},
		See: "waiting is bounded"},
	{Number: 33, Shows: []int{1, 14}, Name: "leader-killed", Quick: true, Run: leaderKilled, For: []string{"etcd-3", "zookeeper-3"},
		See: "the session survives; one holder"},
}

// The leader is stopped for longer than the locks last, and goes on.
func leaderStopped(x *Exam) {
	x.Access.TTL = 4 * time.Second
	two := x.holderAndWaiter(time.Minute)
	leader, err := x.Leader(x.Within(time.Minute))
	x.Must(err)
	x.Did("stop the leader", false, "", x.All[leader].Pause)
	time.Sleep(7 * time.Second)
	x.Must(x.resume(x.All[leader]))
	x.releaseUnlessLost(two.held)
	hb := x.Get(two.wait)
	if x.Backend.Family == etcdFamily { // the old leader may have revoked all leases
		x.releaseUnlessLost(hb)
	} else {
		x.Released(hb)
	}
	x.Warm(two.a, two.b)
}

// resume has a server that was stopped go on. One of several etcd members may have been the leader and take itself for it still:
// then it revokes leases that its successor has renewed (etcd-io/etcd#15247), and those who wait are granted the names before the
// holders are told. So that is a fault that destroys, until the server has answered and has had a second for what it had begun.
func (x *Exam) resume(s *servers.Server) error {
	if len(x.Etcd) < 2 {
		return s.Resume()
	}
	return x.did("a member goes on", true, "", func() error {
		if err := s.Resume(); err != nil {
			return err
		}
		err := s.WaitReady(x.Within(time.Minute))
		time.Sleep(time.Second)
		return err
	})
}

// releaseUnlessLost gives a lock back, unless it has been lost. It may be lost on the way.
func (x *Exam) releaseUnlessLost(h *Holding) {
	if h.LostAt() != 0 {
		x.Logf("the holder lost the lock")
		return
	}
	_ = h.Release(x.Within(10 * time.Second))
}

// The leader is moved again and again while two take turns.
func leaderMoved(x *Exam) {
	name, a, b := x.pair()
	for range 6 {
		ha := x.Acquired(a, name, 20*time.Second)
		wait := x.Waits(b, name, 20*time.Second)
		x.Did("move the leader", false, "", func() error { return x.MoveLeader(x.Within(20 * time.Second)) })
		released := time.Now()
		if err := ha.Release(x.Within(10 * time.Second)); err != nil {
			x.Logf("release: %v", err)
		}
		x.Released(x.GoesOn(wait, released, x.Backend.Death+2*time.Second, "the release"))
	}
}

// The leader is killed while a lock is held and waited for.
func leaderKilled(x *Exam) {
	x.Access.TTL = 7 * time.Second // an election takes its time
	two := x.holderAndWaiter(limit)
	leader, err := x.Leader(x.Within(time.Minute))
	x.Must(err)
	x.Did("kill the leader", false, "", x.All[leader].Kill)
	_, err = x.Leader(x.Within(time.Minute))
	x.Must(err)
	x.Must(x.All[leader].Restart(x.Within(time.Minute)))
	x.StillHolds(two.held, "who holds while there is no leader")
	_ = two.held.Release(x.Within(10 * time.Second))
	x.Released(x.Get(two.wait))
}

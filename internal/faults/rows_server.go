package faults

import (
	"context"
	"time"

	"github.com/seed80cd6120/locker/internal/servers"
)

// What can happen to servers of any kind.
var serverRows = []Row{
	{Number: 8, Shows: []int{6, 7}, Name: "release-with-servers-dead", Run: releaseDead,
		For: thatKeep,
		See: "Release returns by its ctx; renewals stop; the lock is free within TTL"},
	{Number: 22, Shows: []int{3, 14}, Name: "servers-stall", Quick: true, Run: stall,
		See: "lost at the deadline; waiters go on after"},
	{Number: 31, Shows: []int{3, 6, 14}, Name: "quorum-lost", Quick: true, Run: quorumLost,
		For: []string{"etcd-3", "zookeeper-3", redlockFamily},
		See: "lost at the deadline; ctx honoured; waiters go on after"},
	{Number: 32, Shows: []int{1, 2, 14}, Name: "all-restarted", Quick: true, Run: allRestarted,
		For: thatKeep,
		See: "no two holders; tokens go on rising; waiters go on"},
	{Number: 44, Shows: []int{2, 14}, Name: "failover", Run: failover, Fresh: true, For: []string{"redis-replica", "redis-sentinel"},
		See: "tokens go on rising; waiters go on"},
}

// thatKeep are the setups that know after a restart what they knew before.
var thatKeep = []string{"redis-1", "redis-replica", "redis-sentinel", "redis-cluster", redlockFamily, etcdFamily, zooKeeperFamily}

// restartAll brings servers back that were killed.
func (x *Exam) restartAll(all []*servers.Server) {
	x.Helper()
	x.Must(servers.Each(all, func(s *servers.Server) error { return s.Restart(x.Within(time.Minute)) }))
}

// The lock is given back while all servers are dead.
func releaseDead(x *Exam) {
	name, a, b := x.pair()
	ha := x.Acquired(a, name, 10*time.Second)
	x.Did("kill all servers", false, "", func() error { return servers.Each(x.All, (*servers.Server).Kill) })
	ctx, cancel := context.WithTimeout(x.Ctx, time.Second)
	start := time.Now()
	err := ha.Release(ctx)
	x.Soon("release", start, time.Second)
	cancel()
	if err == nil {
		x.Errorf("release said nil with the servers dead")
	}
	x.restartAll(x.All)
	start = time.Now()
	hb := x.Acquired(b, name, 30*time.Second)
	// A server that was away gives sessions their whole time once more, and clients need
	// a moment to be back.
	x.InTime("to free the lock after the servers were back", start, x.Backend.Death+3*time.Second)
	x.Released(hb)
}

// All servers stop in their tracks for longer than the lock lasts, and go on.
func stall(x *Exam) {
	two := x.holderAndWaiter(time.Minute)
	start := time.Now()
	x.Did("stall all servers", false, "", func() error { return servers.Each(x.All, (*servers.Server).Pause) })
	x.Told(two.held, x.Backend.TTL+noise)
	time.Sleep(time.Until(start.Add(x.Backend.TTL + time.Second)))
	x.Must(servers.Each(x.All, (*servers.Server).Resume))
	x.Must(x.WaitReady(x.Ctx))
	back := time.Now()
	hb := x.GoesOn(two.wait, back, x.Backend.Death+10*time.Second, "the servers went on")
	x.Released(hb)
}

// deposed is how long a leader that has lost its majority may go on renewing before it notices: two election timeouts.
const deposed = 2 * time.Second

// The majority of the servers stops.
func quorumLost(x *Exam) {
	c, _ := x.Player("C")
	x.Warm(c)
	two := x.holderAndWaiter(limit)
	some := x.All[:len(x.All)/2+1]
	x.Did("kill the majority", false, "", func() error { return servers.Each(some, (*servers.Server).Kill) })
	killed := time.Now()
	x.mustEndByCtx(c, two.name, time.Second)
	x.mustEndByCtx(c, x.Lock(), time.Second)
	x.Told(two.held, time.Until(killed.Add(deposed+x.Backend.TTL+noise)))
	x.restartAll(some)
	back := time.Now()
	x.Released(x.GoesOn(two.wait, back, x.Backend.Death+10*time.Second, "the servers were back"))
}

// All servers are killed and come back with their data, while a lock is held and waited
// for.
func allRestarted(x *Exam) {
	two := x.holderAndWaiter(limit)
	x.Did("kill all servers", false, "", func() error { return servers.Each(x.All, (*servers.Server).Kill) })
	x.restartAll(x.All)
	back := time.Now()
	x.releaseUnlessLost(two.held)
	hb := x.GoesOn(two.wait, back, x.Backend.Death+10*time.Second, "the servers were back")
	x.Fenced(two.held, hb)
	x.Released(hb)
	x.Warm(two.a, two.b)
}

// The master is killed and the replica takes its place, while a lock is held and waited
// for.
func failover(x *Exam) {
	two := x.holderAndWaiter(limit)
	var rejoin func() error
	x.Did("fail over", true, "", func() (err error) {
		rejoin, err = x.Failover(x.Ctx, []*Network{two.a.net, two.b.net})
		return err
	})
	x.releaseUnlessLost(two.held)
	back := time.Now()
	hb := x.GoesOn(two.wait, back, x.Backend.Death+10*time.Second, "the failover")
	x.Fenced(two.held, hb)
	x.Released(hb)
	x.Must(rejoin())
}

package faults

import (
	"errors"
	"time"

	"github.com/seed80cd6120/locker/internal/servers"
)

// What only a lock on several Redis servers meets.
var redlockRows = []Row{
	{Number: 20, Shows: []int{2}, Name: "node-restarts-empty", Quick: true, Run: nodeRestartsEmpty, For: []string{redlockFamily},
		See: "two holders cannot be prevented; the second has the greater token; the resource stays correct"},
	{Number: 23, Shows: []int{6}, Name: "node-black-holed", Quick: true, Run: nodeBlackHoled, For: []string{redlockFamily},
		See: "acquire and release do not wait for it"},
	{Number: 45, Shows: []int{14}, Name: "two-nodes-dead", Run: twoNodesDead, For: []string{redlockFamily},
		See: "locks are taken, kept and given back with three of five"},
}

// A lock is held on exactly three of five nodes, one of which forgets it.
func nodeRestartsEmpty(x *Exam) {
	x.secondHolder(forgotten{
		ttl: believing,
		how: "one node restarts empty",
		prepare: func(a *Network) {
			for _, p := range a.Set[3:] {
				p.Refuse()
				p.Cut()
			}
		},
		forget: func(string, []*Network) error {
			return errors.Join(x.All[2].Kill(), x.All[2].RestartEmpty(x.Within(30*time.Second)))
		},
	})
}

// One of five nodes accepts connections and never answers.
func nodeBlackHoled(x *Exam) {
	name := x.Lock()
	a, net := x.Player("A")
	x.Warm(a)
	net.Set[0].BlackHole()
	net.Set[0].Freeze()
	for range 20 {
		start := time.Now()
		x.Released(x.Acquired(a, name, 10*time.Second))
		x.InTime("acquire and release", start, time.Second)
	}
}

// Two of five nodes are dead.
func twoNodesDead(x *Exam) {
	two := x.holderAndWaiter(30 * time.Second)
	x.Did("kill two of five", false, "", func() error { return errors.Join(x.All[0].Kill(), x.All[4].Kill()) })
	time.Sleep(2 * x.Backend.TTL) // it is to be kept for longer than it was taken for
	x.StillHolds(two.held, "who holds with three of five nodes up")
	x.Released(two.held)
	x.Released(x.Get(two.wait))
	x.restartAll([]*servers.Server{x.All[0], x.All[4]})
	x.Warm(two.a, two.b)
}

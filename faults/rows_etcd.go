package faults

import (
	"bytes"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/seed80cd6120/locker/internal/servers"
)

// What only an etcd can do to a lock.
var etcdRows = []Row{
	{Number: 14, Shows: []int{1, 14}, Name: "leader-stopped", Run: leaderStopped, For: []string{"etcd-3"},
		See: "no two holders; lost if the lease went"},
	{Number: 15, Shows: []int{14}, Name: "leader-moved", Quick: true, Run: leaderMoved, For: []string{"etcd-3"},
		See: "waiting is bounded"},
	{Number: 16, Shows: []int{8}, Name: "compaction", Quick: true, Run: compaction, For: []string{etcdFamily},
		See: "the waiter reads again"},
	{Number: 30, Shows: []int{13}, Name: "out-of-space", Run: outOfSpace, Fresh: true, For: []string{"etcd-1"},
		Backend: func(b Backend) Backend {
			b.Start = func(t testing.TB) *Servers {
				e := servers.NewEtcd(t, servers.EtcdOptions{Args: []string{"--quota-backend-bytes", "2097152"}})
				return etcdOn(&servers.EtcdCluster{Members: []*servers.Etcd{e}})
			}
			return b
		},
		See: "acquire errs; release still works"},
}

// The leader is stopped for longer than the locks last, and goes on.
func leaderStopped(x *Exam) {
	x.Access.TTL = 4 * time.Second
	name := x.Lock()
	a, _ := x.Player("A")
	b, _ := x.Player("B")
	ha := x.Acquired(a, name, 10*time.Second)
	wait := x.Waits(b, name, time.Minute)
	leader, err := x.Leader(x.Within(10 * time.Second))
	x.Must(err)
	x.Did("stop the leader", false, "", x.All[leader].Pause)
	time.Sleep(7 * time.Second)
	x.Must(x.All[leader].Resume())
	if ha.LostAt() == 0 {
		_ = ha.Release(x.Within(10 * time.Second))
	} else {
		x.Logf("the holder lost the lock")
	}
	x.Released(x.Get(wait))
	x.Warm(a, b)
}

// The leader is moved again and again while two take turns.
func leaderMoved(x *Exam) {
	name := x.Lock()
	a, _ := x.Player("A")
	b, _ := x.Player("B")
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

// What a waiter watches from is compacted away, and its connection is cut.
func compaction(x *Exam) {
	name := x.Lock()
	a, _ := x.Player("A")
	b, net := x.Player("B")
	ha := x.Acquired(a, name, 10*time.Second)
	wait := x.Waits(b, name, 30*time.Second)
	c, err := EtcdClient(x.Access)
	x.Must(err)
	defer c.Close()
	for range 3 {
		net.Freeze()
		var rev int64
		for range 50 {
			put, err := c.Put(x.Within(5*time.Second), "other", "value")
			x.Must(err)
			rev = put.Header.Revision
		}
		_, err := c.Compact(x.Within(5*time.Second), rev, clientv3.WithCompactPhysical())
		x.Must(err)
		net.Cut()
		net.Heal()
		time.Sleep(300 * time.Millisecond)
	}
	x.Released(ha)
	released := time.Now()
	x.Released(x.GoesOn(wait, released, 5*time.Second, "the release"))
}

// The quota of the database is used up.
func outOfSpace(x *Exam) {
	name := x.Lock()
	a, _ := x.Player("A")
	b, _ := x.Player("B")
	ha := x.Acquired(a, name, 10*time.Second)
	x.Warm(b)
	c, err := EtcdClient(x.Access)
	x.Must(err)
	defer c.Close()
	x.Did("fill", false, "", func() error {
		fill := string(bytes.Repeat([]byte("x"), 500<<10))
		for i := 0; ; i++ {
			_, err := c.Put(x.Within(10*time.Second), "filler"+string(rune('a'+i)), fill)
			if err != nil && strings.Contains(err.Error(), "database space exceeded") {
				return nil
			}
			if err != nil || i > 20 {
				return err
			}
		}
	})
	x.Explains(b, "space exceeded")
	start := time.Now()
	x.Released(ha)
	x.Soon("release", start, time.Second)
	_, err = c.AlarmDisarm(x.Within(10*time.Second), &clientv3.AlarmMember{})
	x.Must(err)
}

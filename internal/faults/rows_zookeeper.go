package faults

import (
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/seed80cd6120/locker/internal/names"
	"github.com/seed80cd6120/locker/internal/servers"
)

// What only a ZooKeeper can do to a lock.
var zooKeeperRows = []Row{
	{Number: 34, Shows: []int{14}, Name: "parent-deleted", Run: parentDeleted, For: []string{zooKeeperFamily},
		See: "it is made again, nobody is stuck"},
	{Number: 35, Shows: []int{1, 9}, Name: "numbers-used-up", Run: numbersUsedUp, Fresh: true, For: []string{zooKeeperFamily}, Backend: withoutDigest,
		See: "a server gives its greatest number again and again; nobody holds by it, and waiters go on in a new queue"},
	{Number: 35, Shows: []int{1, 9}, Name: "foreign-children", Run: foreignChildren, For: []string{zooKeeperFamily},
		See: "those of an unknown form stand in the queue, as those of a later version would, until they go"},
}

// An operator (or the reaper of containers) deletes the node under which the queue is,
// whenever it is empty.
func parentDeleted(x *Exam) {
	name, a, b := x.pair()
	c, err := ZooKeeperConn(x.Within(time.Minute), x.Addrs)
	x.Must(err)
	defer c.Close()
	deleted := 0
	ctx, stop := context.WithCancel(x.Ctx)
	defer stop()
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			if c.Delete("/locker/"+names.Escape(name), -1) == nil {
				deleted++
			}
		}
	})
	for range 100 {
		h := x.Acquired(a, name, 10*time.Second)
		x.Released(h)
		h = x.Acquired(b, name, 10*time.Second)
		x.Released(h)
	}
	stop()
	wg.Wait()
	x.Logf("the parent was deleted %d times", deleted)
	if deleted < 5 {
		x.Errorf("the parent was deleted only %d times", deleted)
	}
}

// Nodes of a form that is not known stand in the queue, at the place that their numbers say, or ahead of all.
// They hold up whoever is behind them, and panic nobody, until they are gone.
func foreignChildren(x *Exam) {
	name, a, b := x.pair()
	ha := x.Acquired(a, name, 10*time.Second)
	c, err := ZooKeeperConn(x.Within(time.Minute), x.Addrs)
	x.Must(err)
	defer c.Close()
	queue := "/locker/" + names.Escape(name) + "/"
	id := strings.Repeat("f", 32)
	ahead := []string{"x", "_c_short", "lock-0000000000", id + "-1-all-all-", id + "-2-all-all-0000000000"}
	behind := []string{id + "-lock-2147483647", id + "-lock--2147483648", id + "-2-all-all-2147483647"}
	for _, child := range append(behind, ahead...) {
		_, err := c.Create(queue+child, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		x.Must(err)
	}
	wait := x.Waits(b, name, 10*time.Second)
	x.Released(ha)
	x.stillWaits(wait, ha, 500*time.Millisecond) // behind nodes of an unknown form
	for _, child := range ahead {
		x.Must(c.Delete(queue+child, -1))
	}
	hb := x.Get(wait)
	x.Released(hb)
	x.Released(x.Acquired(a, name, 10*time.Second))
}

// withoutDigest has the servers write snapshots without the digest of all nodes, which
// setChildVersion could not keep right.
func withoutDigest(b Backend) Backend {
	b.Start = func(t testing.TB) *Servers {
		o := zkOptions
		o.Properties = maps.Clone(o.Properties)
		o.Properties["zookeeper.digest.enabled"] = "false"
		return zkSetups[b.Name](t, o)
	}
	return b
}

// A queue comes to the greatest number that a ZooKeeper gives, while a lock is held and
// waited for. The servers then give that number again and again, by which nobody can be
// told to be before another.
func numbersUsedUp(x *Exam) {
	name := x.Lock()
	queue := "/locker/" + names.Escape(name)
	c, err := ZooKeeperConn(x.Within(time.Minute), x.Addrs)
	x.Must(err)
	for _, node := range []string{"/locker", queue} {
		_, err := c.Create(node, nil, 0, zk.WorldACL(zk.PermAll))
		x.Must(err)
	}
	c.Close()
	x.restartAll(x.All) // a leader, or one that is alone, writes a snapshot when it starts
	leader := 0
	if x.Leader != nil {
		leader, err = x.Leader(x.Within(20 * time.Second))
		x.Must(err)
	}
	x.Must(servers.Each(x.All, (*servers.Server).Kill))
	data := func(s *servers.Server) string { return filepath.Join(s.Dir(), "data", "version-2") }
	x.Must(setChildVersion(data(x.All[leader]), queue, math.MaxInt32-1))
	for i, s := range x.All {
		if i != leader { // followers have it in their logs only
			x.Must(os.RemoveAll(data(s)))
			x.Must(os.CopyFS(data(s), os.DirFS(data(x.All[leader]))))
		}
	}
	x.restartAll(x.All)

	a, _ := x.Player("A")
	x.Warm(a)
	h := x.Acquired(a, name, 10*time.Second)
	x.Must(x.onZooKeeper(x.Within(time.Minute), queue, func(_ *zk.Conn, _ string, nodes []string) error {
		if len(nodes) != 1 || !strings.HasSuffix(nodes[0], "-2147483646") {
			return fmt.Errorf("the queue does not stand where it should: %q", nodes)
		}
		return nil
	}))
	got := make(chan Got, 4)
	for range cap(got) {
		p, _ := x.Player("B")
		x.Warm(p)
		go func() {
			h, err := p.Acquire(x.Within(30*time.Second), name)
			got <- Got{Holding: h, Err: err}
		}()
	}
	x.stillWaits(got, h, time.Second)
	x.Released(h)
	for range cap(got) {
		h := x.Get(got)
		time.Sleep(100 * time.Millisecond) // in which another would be seen to hold, too
		x.Released(h)
	}
}

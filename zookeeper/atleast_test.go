package zookeeper

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/go-zookeeper/zk"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/servers"
)

func TestLinger(t *testing.T) {
	beside(t)
	z := servers.SharedZooKeeper(t)
	op, d := console(t, z.Addr()), raw(t, []string{z.Addr()})
	const long = 4 * time.Second // less than firstLook
	n := name(t)
	h := claim(n)
	g := take(t, d, h)
	c := claim(n)
	turn := waiting(t, op, d, c)
	asked := time.Now()
	must(t, d.Linger(within(t, time.Minute), h, long))
	taken(t, d, shared(n))
	all, err := d.Look(within(t, time.Minute), n)
	stays := time.Since(asked) < long
	if err != nil || stays && (len(all) != 2 || !all[0].Held || all[1].Held) {
		t.Fatalf("look: %+v, %v", all, err)
	}
	if p := all[0]; stays && (p.ID != h.ID || p.Token != g.Token || p.Owner != h.Owner || p.Left <= 0 || p.Left > long) {
		t.Errorf("look: %+v", p)
	}
	next := turn.Granted(t, patience)
	if took := time.Since(asked); took < long || next.Token <= g.Token {
		t.Errorf("granted after %v, tokens %d %d", took, g.Token, next.Token)
	}
	release(t, d, c)
	op.length(n, 0)
}

// The process that made it lives no longer: who waits and who tries find the time over, and a
// client that knows no server's time yet does, too.
func TestLingerOfOneThatIsGone(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op := console(t, z.Addr())
	linger := func(n string) (node string) {
		a, _, err := connect(within(t, 30*time.Second), []string{z.Addr()}, nil)
		must(t, err)
		c := claim(n)
		take(t, a, c)
		must(t, a.Linger(within(t, time.Minute), c, time.Hour))
		locktest.Close(t, a.Close)
		return op.length(n, 1)[0]
	}
	lingerFor := func(n string, d time.Duration) { // changes the node: a Locker asked for so little may remove it before it is closed
		e, path := parseEntry(linger(n)), queuePath(folder, n)+"/"
		e.linger = d
		_, err := op.Multi(
			&zk.DeleteRequest{Path: path + e.node, Version: -1},
			&zk.CreateRequest{Path: fmt.Sprintf("%s%s%010d", path, e.name(), e.seq), Acl: zk.WorldACL(zk.PermAll)})
		must(t, err)
	}
	n := name(t)
	linger(n)
	taken(t, raw(t, []string{z.Addr()}), claim(n)) // which finds nobody's time over
	op.length(n, 1)

	n = name(t)
	lingerFor(n, time.Millisecond)
	viewer := raw(t, []string{z.Addr()})
	eventually.Is(t, "no time to be left", func() bool {
		all, err := viewer.Look(within(t, time.Minute), n)
		if err != nil || len(all) != 1 || !all[0].Held || all[0].Left < 0 {
			t.Fatalf("look: %+v, %v", all, err)
		}
		return all[0].Left == 0
	})

	n = name(t)
	lingerFor(n, time.Second)
	b := raw(t, []string{z.Addr()})
	c := claim(n)
	take(t, b, c)
	release(t, b, c)

	n = name(t)
	lingerFor(n, time.Millisecond)
	eventually.Is(t, "a try to find the time over", func() bool {
		_, err := raw(t, []string{z.Addr()}).Acquire(within(t, time.Minute), trying(claim(n)))
		return err == nil
	})
}

// The node is there all the same, also when the session is over: to ask again tells so, and makes it end in time.
func TestLingerWhoseReplyIsLost(t *testing.T) {
	beside(t)
	z := servers.SharedZooKeeper(t)
	op, p := console(t, z.Addr()), front(t, z.Addr())
	m := newProtocolProxy(t, p.Addr())
	d := raw(t, []string{m.addr()})
	for _, over := range []bool{false, true} {
		c := claim(name(t))
		take(t, d, c)
		p.SwallowReply(carries(opMulti), 0)
		if err := d.Linger(within(t, time.Minute), c, time.Hour); err == nil {
			t.Fatal("linger without a reply")
		}
		op.length(c.Name, 1)
		if over {
			id, password := m.session()
			steal(t, z.Addr(), d, id, password)
		}
		if err := d.Linger(within(t, time.Minute), c, time.Hour); err != nil {
			t.Fatalf("session over: %v: linger again: %v", over, err)
		}
		op.length(c.Name, 1)
		if err := d.Linger(within(t, time.Minute), c, time.Millisecond); err != nil {
			t.Fatalf("session over: %v: linger for less: %v", over, err)
		}
		op.length(c.Name, 0)
	}
}

// When the time is over there is no server to be reached.
func TestLingerEndsAfterFailures(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	m := newProtocolProxy(t, z.Addr())
	d := raw(t, []string{m.addr()})
	c := claim(name(t))
	take(t, d, c)
	m.mu.Lock()
	m.refuse, m.code, m.times = []int32{opDelete}, -4, 3 // as if the connection broke
	m.mu.Unlock()
	must(t, d.Linger(within(t, time.Minute), c, time.Millisecond))
	console(t, z.Addr()).length(c.Name, 0)
}

// Somebody has put a node below the one that stays, so that it cannot be removed.
func TestLingerWithNodeBelow(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op, d := console(t, z.Addr()), raw(t, []string{z.Addr()})
	n := name(t)
	e := entry{id: claim(n).ID, weight: driver.All, limit: driver.All, linger: time.Millisecond}
	node := plantQueue(t, op, n) + "/" + e.name() + "0000000000"
	if _, err := op.Create(node, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	op.plant(node + "/x")
	eventually.Is(t, "a try to find the time over", func() bool {
		turn := begin(within(t, time.Minute), d, trying(claim(n)))
		locktest.Receive(t, "the answer to a try", turn.Done, patience)
		return errors.Is(turn.Err, zk.ErrNotEmpty)
	})
}

// A Locker that was closed is not kept in memory until the names that it keeps taken are free.
func TestLingerIsForgottenByClose(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op, n := console(t, z.Addr()), name(t)
	kept := func() weak.Pointer[backend] {
		d, _, err := connect(within(t, time.Minute), []string{z.Addr()}, nil)
		must(t, err)
		c := claim(n)
		take(t, d, c)
		must(t, d.Linger(within(t, time.Minute), c, time.Hour))
		locktest.Close(t, d.Close)
		return weak.Make(d)
	}()
	eventually.Is(t, "the Locker to be forgotten", func() bool {
		runtime.GC()
		return kept.Value() == nil
	})
	op.length(n, 1)
}

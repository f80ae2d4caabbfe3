package zookeeper

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/servers"
)

// The reply to a create is lost. Its node has to be found again, or the claim would
// wait for itself.
func TestCreateWhoseReplyIsLost(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op := console(t, z.Addr())
	p := front(t, z.Addr())
	d := raw(t, []string{p.Addr()})
	n := name(t)
	warm := claim(n)
	take(t, d, warm) // makes the queue
	must(t, d.Release(context.Background(), warm))
	for range 5 {
		c := claim(n)
		p.SwallowReply(carries(opMulti), 0)
		g := take(t, d, c)
		_, stat, err := op.Get(op.nodeOf(c))
		if err != nil || stat.Czxid != g.Token>>spareBits {
			t.Errorf("token %d, czxid %d, %v", g.Token>>spareBits, stat.Czxid, err)
		}
		op.length(n, 1)
		must(t, d.Release(context.Background(), c))
		op.length(n, 0)
	}
	if got := p.Stats().Swallowed; got < 5 {
		t.Errorf("%d replies were swallowed", got)
	}
}

// The server that is asked whether the node is there may lag behind its leader. It
// has to be brought up to date first.
func TestNodeIsLookedForOnlyAfterSync(t *testing.T) {
	beside(t)
	z := servers.SharedZooKeeper(t)
	p := front(t, z.Addr())
	m := newProtocolProxy(t, p.Addr())
	d := raw(t, []string{m.addr()})
	c := claim(name(t))
	plantQueue(t, console(t, z.Addr()), c.Name)
	p.SwallowReply(carries(opMulti), 0)
	take(t, d, c)
	m.mu.Lock()
	ops := slices.DeleteFunc(slices.Clone(m.ops), func(op int32) bool { return op == opPing || op == opGetData })
	m.mu.Unlock()
	if len(ops) < 4 || !slices.Equal(ops[:4], []int32{opMulti, opSync, opGetChildren, opDelete}) {
		t.Errorf("asked for %v", ops)
	}
	ctx, cancel := context.WithCancel(context.Background())
	lost := claim(c.Name)
	p.FreezeDown()
	before := m.asked(opMulti)
	done := begin(ctx, d, lost)
	eventually.Is(t, "the create to be asked for", func() bool { return m.asked(opMulti) > before })
	cancel()
	<-done.Done
	p.Heal()
	eventually.Is(t, "the claim to be abandoned", func() bool { // the connection may break once more
		return d.Abandon(within(t, time.Minute), lost) == nil
	})
	m.mu.Lock()
	ops = slices.DeleteFunc(slices.Clone(m.ops), func(op int32) bool { return op == opPing || op == opGetData })
	m.mu.Unlock()
	if n := len(ops); !slices.Equal(ops[n-4:], []int32{opSync, opGetChildren, opDelete, opDelete}) {
		t.Errorf("asked for %v", ops)
	}
	if err := d.Release(context.Background(), c); err != nil {
		t.Error(err)
	}
}

// The same, and nobody waits any more: then nothing may be left, however often the
// cleaning up fails as well.
func TestCreateWhoseReplyIsLostAndCleaningFails(t *testing.T) {
	beside(t)
	z := servers.SharedZooKeeper(t)
	op := console(t, z.Addr())
	p := front(t, z.Addr())
	l := open(t, []string{p.Addr()})
	n := name(t)
	plantQueue(t, op, n)
	p.FreezeDown()
	ctx, cancel := context.WithCancel(context.Background())
	turn := locktest.Begin(ctx, l, n)
	op.length(n, 1) // the ghost
	cancel()
	<-turn.Done
	if !errors.Is(turn.Err, context.Canceled) {
		t.Fatalf("acquire: %v", turn.Err)
	}
	p.Heal()
	for range 10 { // however often the connection breaks while that is done
		before := p.Stats().Accepted
		p.Cut()
		eventually.Is(t, "a new connection", func() bool { return p.Stats().Accepted > before })
	}
	op.length(n, 0)
	other := open(t, []string{z.Addr()})
	lock, err := other.TryAcquire(within(t, time.Minute), n)
	must(t, err)
	_ = lock.Release(context.Background())
}

// Requests are on their way when the connection breaks, and arrive later: they must
// have no effect after Abandon has said that nothing is left.
func TestCreateThatArrivesLateHasNoEffect(t *testing.T) {
	beside(t)
	z := servers.SharedZooKeeper(t)
	op := console(t, z.Addr())
	p, q := front(t, z.Addr()), front(t, z.Addr())
	first, second := newProtocolProxy(t, p.Addr()), newProtocolProxy(t, q.Addr())
	d := raw(t, []string{first.addr(), second.addr()})
	eventually.Is(t, "one connection", func() bool { return p.Stats().Open+q.Stats().Open == 1 })
	used, connection := p, first
	if q.Stats().Open > 0 {
		used, connection = q, second
	}
	c := claim(name(t))
	ctx, cancel := context.WithCancel(context.Background())
	used.FreezeUp()
	done := begin(ctx, d, c)
	eventually.Is(t, "the create to be held", func() bool { return used.Stats().HeldUp > 0 })
	cancel()
	<-done.Done
	connection.cut() // and so by the other way
	must(t, d.Abandon(within(t, 20*time.Second), c))
	held := used.Stats().BytesUp
	used.Heal()
	eventually.Is(t, "the create to arrive", func() bool { return used.Stats().HeldUp == 0 && used.Stats().BytesUp > held })
	for range 3 {
		if _, err := d.session.conn.Sync("/"); err != nil {
			t.Fatal(err)
		}
	}
	op.length(c.Name, 0)
}

// A delete is repeated because its reply was lost: that the node is gone is what was
// wanted. A late machine may give a release up, but not five of them.
func TestDeleteWhoseReplyIsLost(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	for try := 1; ; try++ {
		p := front(t, z.Addr())
		lock := locktest.Acquire(t, open(t, []string{p.Addr()}), name(t))
		p.SwallowReply(carries(opDelete), 0)
		begun := time.Now()
		err := lock.Release(within(t, time.Minute))
		if locktest.GaveUp(err, begun) && try < 5 {
			continue
		}
		if err != nil {
			t.Errorf("release: %v", err)
		}
		if p.Stats().Swallowed == 0 {
			t.Error("no reply was swallowed")
		}
		return
	}
}

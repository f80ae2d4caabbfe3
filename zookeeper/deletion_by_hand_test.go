package zookeeper

import (
	"context"
	"errors"
	"path"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/servers"
)

// A waiter whose node was deleted queues anew, and what its predecessor then says is
// not for it any more.
func TestWaiterWhoseNodeIsDeletedQueuesAnew(t *testing.T) {
	beside(t)
	z := servers.SharedZooKeeper(t)
	op := console(t, z.Addr())
	n := name(t)
	a, b, c := queues(t, op, z.Addr(), n), queues(t, op, z.Addr(), n), queues(t, op, z.Addr(), n)
	a.holds()
	op.delete(b.node)
	op.queue(n, func(all []string) bool { // a, c, b
		return len(all) == 3 && parseQueue(all)[2].id == b.claim.ID
	})
	a.releases()
	first := c.holds()
	b.waits()
	c.releases()
	if second := b.holds(); second.Token <= first.Token {
		t.Errorf("tokens %d, %d", first.Token, second.Token)
	}
	b.releases()
	op.length(n, 0)
}

// Who has waited for long watches its own node, too, and asks for nothing else: it is told when somebody deletes it.
func TestIdleWaiterWatchesItsOwnNode(t *testing.T) {
	beside(t)
	z := servers.SharedZooKeeper(t)
	op := console(t, z.Addr())
	n := name(t)
	a, b := queues(t, op, z.Addr(), n), queues(t, op, z.Addr(), n)
	a.holds()
	eventually.Is(t, "the waiter to watch its own node", func() bool { return watchers(t, z)[b.node] == 1 })
	op.delete(b.node)
	op.queue(n, func(all []string) bool { return len(all) == 2 && !slices.Contains(all, path.Base(b.node)) })
	a.releases()
	b.holds()
	b.releases()
}

func TestHolderWhoseNodeIsDeletedIsTold(t *testing.T) {
	beside(t)
	z := servers.SharedZooKeeper(t)
	op := console(t, z.Addr())
	for _, lease := range []bool{false, true} {
		l := open(t, []string{z.Addr()})
		var opts []locker.AcquireOption
		if lease {
			opts = append(opts, locker.WithLease(time.Minute))
		}
		n := name(t)
		lock, err := l.Acquire(within(t, time.Minute), n, opts...)
		must(t, err)
		path := queuePath(folder, n)
		op.delete(path + "/" + op.length(n, 1)[0])
		locktest.Lost(t, lock, patience) // long before its lease or the session is over
		if err := lock.Release(context.Background()); !errors.Is(err, locker.ErrLost) {
			t.Errorf("lease %v: release: %v", lease, err)
		}
	}
}

// Somebody deletes the queue again and again, as a server does that reaps too eagerly.
func TestQueueDeletedInALoop(t *testing.T) {
	beside(t)
	z := servers.SharedZooKeeper(t)
	op, d := console(t, z.Addr()), raw(t, []string{z.Addr()})
	n := name(t)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				_ = op.Delete(queuePath(folder, n), -1)
			}
		}
	}()
	token := int64(0)
	for range 200 {
		c := claim(n)
		if g := take(t, d, c); g.Token <= token {
			t.Fatalf("token %d after %d", g.Token, token)
		} else {
			token = g.Token
		}
		must(t, d.Release(context.Background(), c))
	}
	close(stop)
	<-stopped
}

// The operator deletes the queue with all that is in it.
func TestQueueDeletedWithAllInIt(t *testing.T) {
	beside(t)
	z := servers.SharedZooKeeper(t)
	op := console(t, z.Addr())
	n := name(t)
	a, b := queues(t, op, z.Addr(), n), queues(t, op, z.Addr(), n)
	a.holds()
	op.delete(b.node)
	op.length(n, 2) // it came again
	var all []any
	for _, path := range []string{op.nodeOf(b.claim), a.node, queuePath(folder, n)} {
		all = append(all, &zk.DeleteRequest{Path: path, Version: -1})
	}
	if _, err := op.Multi(all...); err != nil {
		t.Fatal(err)
	}
	b.holds()
	if err := a.Release(within(t, time.Minute), a.claim); !errors.Is(err, driver.ErrGone) {
		t.Errorf("release: %v", err)
	}
	b.releases()
}

// Owners may be any bytes, and writing to nodes is no news to anybody.
func TestWritingToNodesIsNoNews(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op, d := console(t, z.Addr()), raw(t, []string{z.Addr()})
	n := name(t)
	a, b := claim(n), claim(n)
	take(t, d, a)
	turn := waiting(t, op, d, b)
	for range 3 {
		for _, c := range []*driver.Claim{a, b} {
			if _, err := op.Set(op.nodeOf(c), []byte("x"), -1); err != nil {
				t.Fatal(err)
			}
		}
		stillWaits(t, turn, d)
		if err := renewed(t, d, a); err != nil {
			t.Errorf("renew: %v", err)
		}
	}
	release(t, d, a)
	turn.Granted(t, patience)
	op.delete(op.nodeOf(b))
	if err := d.Release(within(t, time.Minute), b); err == nil {
		t.Error("released a node that was deleted")
	}
}

package zookeeper

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/servers"
)

func TestTryOfTakenNameLeavesNothing(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op := console(t, z.Addr())
	n := name(t)
	a := queues(t, op, z.Addr(), n)
	a.holds()
	taken(t, raw(t, []string{z.Addr()}), claim(n))
	op.length(n, 1)
	a.releases()
}

// The predecessor of a waiter goes while the holder stays: with its session, by
// cancellation, or by an operator's hand. The waiter must not take it for a release.
func TestWaiterDoesNotTakeTheEndOfAnotherWaiterForItsTurn(t *testing.T) {
	beside(t)
	z := servers.SharedZooKeeper(t)
	op := console(t, z.Addr())
	for how, leave := range map[string]func(*client, context.CancelFunc){
		"session":  func(c *client, _ context.CancelFunc) { locktest.Close(t, c.Close) },
		"operator": func(c *client, _ context.CancelFunc) { op.delete(c.node) },
		"cancelled": func(c *client, cancel context.CancelFunc) {
			cancel()
			<-c.turn.Done
			must(t, c.Abandon(within(t, time.Minute), c.claim))
		},
	} {
		t.Run(how, func(t *testing.T) {
			n := name(t)
			holder := queues(t, op, z.Addr(), n)
			holder.holds()
			middle := &client{t: t}
			var err error
			if middle.backend, _, err = connect(within(t, 30*time.Second), []string{z.Addr()}, nil); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(within(t, time.Minute))
			middle.claim = claim(n)
			middle.turn = begin(ctx, middle.backend, middle.claim)
			middle.node = op.nodeOf(middle.claim)
			last := queues(t, op, z.Addr(), n)
			last.told()
			leave(middle, cancel)
			if how == "operator" { // then it queues anew, behind
				op.queue(n, func(all []string) bool {
					return len(all) == 3 && parseQueue(all)[2].id == middle.claim.ID
				})
			} else {
				op.length(n, 2)
			}
			last.told()
			last.waits()
			holder.releases()
			last.holds()
			last.releases()
			if how == "operator" {
				middle.holds()
			}
			cancel()
			locktest.Close(t, middle.Close)
			op.length(n, 0)
		})
	}
}

// The goroutines of one process wait there, and at most one of them at the server, over
// one connection.
func TestGoroutinesShareOnePlaceInTheQueue(t *testing.T) {
	beside(t)
	z := servers.SharedZooKeeper(t)
	op := console(t, z.Addr())
	p := front(t, z.Addr())
	l := open(t, []string{p.Addr()})
	ctx := within(t, 3*time.Minute)
	n := name(t)
	held, err := l.Acquire(ctx, n)
	must(t, err)
	before := p.Stats().Accepted
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			lock, err := l.Acquire(ctx, n)
			if err != nil {
				t.Error(err)
				return
			}
			if all, _, err := op.Children(queuePath(folder, n)); err != nil || len(all) > 2 {
				t.Errorf("in the queue: %q %v", all, err)
			}
			if err := freed(ctx, lock); err != nil {
				t.Error(err)
			}
		})
	}
	op.length(n, 2)
	must(t, freed(ctx, held))
	wg.Wait()
	if s := p.Stats(); s.Accepted != before || s.Open != 1 {
		t.Errorf("%d connections, %d more than at first", s.Open, s.Accepted-before)
	}
}

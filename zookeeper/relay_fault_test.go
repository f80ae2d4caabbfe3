package zookeeper

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/servers"
)

// A node that was made by hand, without a word to the queue, is waited for like any other.
func TestNextBehindNodeMadeByHand(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op := console(t, z.Addr())
	r := relays(t, op, z.Addr())
	path := queuePath(folder, r.holder.Name) + "/" + someID + mark
	planted, err := op.Create(path, nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(within(t, time.Minute))
	gone := begin(ctx, r.backend, r.waiter)
	op.nodeOf(r.waiter)
	r.told()
	r.goes()
	third := begin(within(t, time.Minute), r.backend, r.third)
	op.nodeOf(r.third)
	r.told()
	cancel()
	<-gone
	if err := r.Abandon(within(t, time.Minute), r.waiter); err != nil {
		t.Fatal(err)
	}
	r.told()
	notYet(t, third)
	op.delete(planted)
	await(t, third, "the third's turn").ok(t)
	r.frees(r.third)
	op.length(r.holder.Name, 0)
}

// The waiter's node is deleted by hand and it does not know yet, and somebody else is the
// next: the third must not take the waiter's absence for its own turn.
func TestNextAfterWaiterWhoseNodeWasDeleted(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op, m := console(t, z.Addr()), spy(t, z.Addr())
	r := relays(t, op, m.addr()).settled()
	letGo := m.hold(t, opSync) // with which the waiter begins to look for its node
	asked := m.asked(opSync)
	op.delete(op.nodeOf(r.waiter))
	eventually.Is(t, "the waiter to look for its node", func() bool { return m.asked(opSync) > asked })
	other := queues(t, op, z.Addr(), r.holder.Name)
	done := make(chan chan outcome)
	go func() {
		r.goes()
		done <- begin(within(t, time.Minute), r.backend, r.third)
	}()
	letGo()
	third := await(t, done, "release")
	other.holds()
	op.length(r.holder.Name, 3)
	r.told()
	for _, turn := range []chan outcome{r.turn, third} {
		notYet(t, turn)
	}
	other.releases()
	for range 2 {
		select {
		case o := <-r.turn:
			o.ok(t)
			r.frees(r.waiter)
		case o := <-third:
			o.ok(t)
			r.frees(r.third)
		}
	}
	op.length(r.holder.Name, 0)
}

// It is not known whether a release that had no answer was carried out, and so whether
// the third is in the queue.
func TestRelayWithoutAnswer(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op := console(t, z.Addr())
	for _, lost := range []string{"request", "answer"} {
		for _, then := range []string{"goes on", "gives up"} {
			t.Run(lost+", "+then, func(t *testing.T) {
				p := inFront(t, z.Addr())
				r := relays(t, op, p.Addr()).settled()
				ctx, cancel := context.WithCancel(within(t, time.Minute))
				if lost == "answer" {
					p.SwallowReply(carries(opMulti), 0)
				} else {
					p.FreezeUp()
					go func() {
						eventually.Is(t, "the release to be sent", func() bool { return p.Stats().HeldUp > 0 })
						cancel()
					}()
				}
				w, _ := r.session.now()
				joined, err := r.relay(ctx, r.third)
				if lost == "request" {
					p.Cut()
					p.Heal()
				}
				eventually.Is(t, "a new connection", func() bool { now, _ := r.session.now(); return now != nil && now != w })
				if !joined || err == nil || lost == "answer" && !errors.Is(err, zk.ErrConnectionClosed) {
					t.Fatalf("release without an answer: taken along %v, %v", joined, err)
				}
				cancel()
				if then == "gives up" {
					if err := r.Abandon(within(t, time.Minute), r.third); err != nil {
						t.Fatal(err)
					}
					r.frees(r.holder) // again
					await(t, r.turn, "the waiter's turn").ok(t)
					op.length(r.holder.Name, 1)
					r.frees(r.waiter)
					op.length(r.holder.Name, 0)
					return
				}
				third := begin(within(t, time.Minute), r.backend, r.third)
				r.frees(r.holder)
				op.nodeOf(r.third)
				r.follows(third)
			})
		}
	}
}

// Promise 5: who was taken along and is not wanted any more leaves nothing.
func TestNextGivesUp(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op := console(t, z.Addr())
	for _, asked := range []bool{false, true} {
		r := relays(t, op, z.Addr()).settled()
		if !r.goes() {
			t.Fatal("not taken along")
		}
		if asked {
			ctx, cancel := context.WithCancel(context.Background())
			third := begin(ctx, r.backend, r.third)
			r.told()
			cancel()
			<-third
		}
		if err := r.Abandon(within(t, time.Minute), r.third); err != nil {
			t.Fatal(err)
		}
		op.length(r.holder.Name, 1)
		await(t, r.turn, "the waiter's turn").ok(t)
		r.frees(r.waiter)
		op.length(r.holder.Name, 0)
	}
}

// A waiter that has given up is not waited for, even if its node is still there.
func TestReleaseBringsNobodyBehindOneWhoGaveUp(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op := console(t, z.Addr())
	r := relays(t, op, z.Addr())
	ctx, cancel := context.WithCancel(context.Background())
	gone := begin(ctx, r.backend, r.waiter)
	op.nodeOf(r.waiter)
	r.told()
	cancel()
	<-gone
	r.stays(r.goes())
	if err := r.Abandon(within(t, time.Minute), r.waiter); err != nil {
		t.Fatal(err)
	}
	op.length(r.holder.Name, 0)
}

// A holder whose node is no more learns that from its release, and nobody is taken along.
func TestRelayOfHolderThatIsGone(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op := console(t, z.Addr())
	t.Run("deleted", func(t *testing.T) {
		r := relays(t, op, z.Addr()).settled()
		op.delete(op.nodeOf(r.holder))
		await(t, r.turn, "the waiter's turn").ok(t)
		r.turn = begin(within(t, time.Minute), r.backend, r.third) // so that one is behind
		r.op.nodeOf(r.third)
		fourth, _ := claim(t, r.holder.Name)
		joined, err := r.relay(within(t, time.Minute), fourth)
		if joined || fourth.State != nil || !errors.Is(err, driver.ErrGone) || !errors.Is(err, zk.ErrNoNode) {
			t.Errorf("taken along %v, %v", joined, err)
		}
		r.frees(r.waiter)
		await(t, r.turn, "the third's turn").ok(t)
		r.frees(r.third)
	})
	t.Run("deleted before it is known", func(t *testing.T) {
		m := spy(t, z.Addr())
		r := relays(t, op, m.addr()).settled()
		letGo := m.hold(t, opMulti)
		var joined bool
		var err error
		var wg sync.WaitGroup
		asked := m.asked(opMulti)
		wg.Go(func() { joined, err = r.relay(within(t, time.Minute), r.third) })
		eventually.Is(t, "the release to be sent", func() bool { return m.asked(opMulti) > asked })
		op.delete(op.nodeOf(r.holder))
		letGo()
		wg.Wait()
		if joined || r.third.State != nil || !errors.Is(err, driver.ErrGone) {
			t.Errorf("taken along %v, %v", joined, err)
		}
		await(t, r.turn, "the waiter's turn").ok(t)
		r.frees(r.waiter)
		op.length(r.holder.Name, 0)
	})
	t.Run("session ended", func(t *testing.T) {
		s := spy(t, z.Addr())
		r := relays(t, op, s.addr()).settled()
		s.mu.Lock()
		id, password := s.id, s.password
		s.mu.Unlock()
		steal(t, z.Addr(), r.backend, id, password)
		joined, err := r.relay(within(t, time.Minute), r.third)
		r.stays(joined)
		if !errors.Is(err, driver.ErrGone) || !errors.Is(err, zk.ErrSessionExpired) {
			t.Errorf("release: %v", err)
		}
		await(t, r.turn, "the waiter's turn").ok(t)
		r.frees(r.waiter)
	})
}

// The session ends when the third has its node, and before it has gone on from there.
func TestSessionEndsWithTheNextInPlace(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op, s := console(t, z.Addr()), spy(t, z.Addr())
	r := relays(t, op, s.addr()).settled()
	if !r.goes() {
		t.Fatal("not taken along")
	}
	await(t, r.turn, "the waiter's turn").ok(t)
	s.mu.Lock()
	id, password := s.id, s.password
	s.mu.Unlock()
	steal(t, z.Addr(), r.backend, id, password)
	g := take(t, r.backend, r.third)
	_, stat, err := op.Get(op.nodeOf(r.third))
	if err != nil || stat.Czxid != g.Token || stat.EphemeralOwner == id {
		t.Errorf("token %d, czxid %d, session %#x, %v", g.Token, stat.Czxid, stat.EphemeralOwner, err)
	}
	r.frees(r.third)
}

// asksWhileDeleted has the third go on, and node deleted before that or after.
func (r *relay) asksWhileDeleted(op operator, node string, before bool) chan outcome {
	r.t.Helper()
	if before {
		op.delete(node)
	}
	third := begin(within(r.t, time.Minute), r.backend, r.third)
	if !before {
		r.told()
		op.delete(node)
	}
	return third
}

// An operator deletes nodes when the third has its own.
func TestNodesDeletedBesideTheNext(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op := console(t, z.Addr())
	t.Run("its own", func(t *testing.T) {
		for _, early := range []bool{true, false} {
			r := relays(t, op, z.Addr()).settled()
			if !r.goes() {
				t.Fatal("not taken along")
			}
			node := op.nodeOf(r.third)
			third := r.asksWhileDeleted(op, node, early)
			op.queue(r.holder.Name, func(all []string) bool { // it came again
				own := lineUp(all, r.third.ID).own
				return own != "" && !strings.HasSuffix(node, own)
			})
			r.follows(third)
		}
	})
	t.Run("the holder's", func(t *testing.T) {
		for _, early := range []bool{true, false} {
			r := relays(t, op, z.Addr()).settled()
			if !r.goes() {
				t.Fatal("not taken along")
			}
			await(t, r.turn, "the waiter's turn").ok(t)
			third := r.asksWhileDeleted(op, op.nodeOf(r.waiter), early)
			await(t, third, "the third's turn").ok(t)
			r.frees(r.third)
			op.length(r.holder.Name, 0)
		}
	})
}

package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/servers"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestWaiterLosesItsPlace: a waiter whose lease is revoked, or whose key is deleted, just
// before its turn comes is not granted what it no longer queues for, but queues anew; also
// one that waits for a claim of its own Locker.
func TestWaiterLosesItsPlace(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"lease revoked", "key deleted", "key deleted, behind its own Locker"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			c := dial(t, servers.SharedEtcd(t).Addr())
			holder, b := driverOf(t, c), driverOf(t, c)
			if strings.Contains(how, "own") {
				holder = b
			}
			held := hold(t, holder, t.Name())
			granted := make(chan driver.Grant, 1)
			go func() {
				g, err := b.Acquire(t.Context(), claim(t.Name(), true))
				if err != nil {
					t.Error(err)
				}
				granted <- g
			}()
			keys := queueHas(t, c, t.Name(), 2)
			third := driverOf(t, c)
			next := claim(t.Name(), true)
			nextGranted := begin(t, third, next)
			queueHas(t, c, t.Name(), 3)
			if strings.HasPrefix(how, "lease") {
				_, err := c.Revoke(t.Context(), b.session.Load().lease)
				must(t, err)
			} else {
				remove(t, c, keys[1])
			}
			release(t, holder, held)
			must(t, soon(t, "who stood behind", nextGranted))
			queueHas(t, c, t.Name(), 2)
			if len(granted) > 0 {
				t.Fatal("two hold the name")
			}
			release(t, third, next)
			g := soon(t, "the grant", granted)
			r, err := c.Get(t.Context(), b.queueOf(t.Name()), clientv3.WithFirstCreate()...)
			if err != nil || len(r.Kvs) != 1 || r.Kvs[0].CreateRevision != g.Token>>tokenBits {
				t.Errorf("granted token %d, at the head: %v %v", g.Token, r.Kvs, err)
			}
		})
	}
}

// TestHolderAheadDeleted: who waits for a claim of its own Locker goes on when that is deleted
// by hand.
func TestHolderAheadDeleted(t *testing.T) {
	t.Parallel()
	c := dial(t, servers.SharedEtcd(t).Addr())
	b := driverOf(t, c)
	hold(t, b, t.Name())
	granted := begin(t, b, claim(t.Name(), true))
	_, err := c.Delete(t.Context(), queueHas(t, c, t.Name(), 2)[0])
	must(t, err, soon(t, "the grant", granted))
}

// TestSomebodyAheadGivesUp: the key that a waiter watches goes, but another farther ahead holds.
func TestSomebodyAheadGivesUp(t *testing.T) {
	t.Parallel()
	c := dial(t, servers.SharedEtcd(t).Addr())
	b := driverOf(t, c)
	held := hold(t, b, t.Name())
	ctx, cancel := context.WithCancel(t.Context())
	middle := claim(t.Name(), true)
	gaveUp := make(chan error, 1)
	go func() { _, err := b.Acquire(ctx, middle); gaveUp <- err }()
	queueHas(t, c, t.Name(), 2)
	granted := begin(t, driverOf(t, c), claim(t.Name(), true))
	queueHas(t, c, t.Name(), 3)
	cancel()
	if err := soon(t, "who gave up", gaveUp); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	abandon(t, b, middle)
	queueHas(t, c, t.Name(), 2)
	if len(granted) > 0 {
		t.Fatal("granted behind a holder")
	}
	release(t, b, held)
	must(t, soon(t, "the grant", granted))
}

// TestCompaction: the history that a waiter would need after its watch was cut is compacted: it
// reads again.
func TestCompaction(t *testing.T) {
	t.Parallel()
	e := servers.NewEtcd(t, servers.EtcdOptions{})
	c := dial(t, e.Addr())
	p := front(t, e.Addr())
	b, holder := driverOf(t, dial(t, p.Addr())), driverOf(t, c)
	held := hold(t, holder, t.Name())
	waiter := claim(t.Name(), true)
	granted := begin(t, b, waiter)
	eventually.Is(t, "watch", func() bool { return watchers(t, e) > 0 })
	p.Refuse()
	p.Cut()
	release(t, holder, held)
	r, err := c.Get(t.Context(), "nothing")
	must(t, err)
	_, err = c.Compact(t.Context(), r.Header.Revision, clientv3.WithCompactPhysical())
	must(t, err)
	p.Heal()
	must(t, soon(t, "the grant", granted))
	release(t, b, waiter)
	queueHas(t, c, t.Name(), 0)
}

// TestWatchesBeginNow: no watch of a waiter begins in the past, where a loop of the server serves it that runs every 100 ms.
func TestWatchesBeginNow(t *testing.T) {
	t.Parallel()
	addr := servers.SharedEtcd(t).Addr()
	var now, past atomic.Int64
	var first atomic.Int64 // stream with watches: on a later one the client itself goes on with watches from where they were
	holder, b := driverOf(t, dial(t, addr)), driverOf(t, dialSeeing(t, addr, func(stream int64, msg any) {
		r, ok := msg.(*pb.WatchRequest)
		if !ok || r.GetCreateRequest() == nil {
			return
		}
		first.CompareAndSwap(0, stream)
		switch {
		case first.Load() != stream:
		case r.GetCreateRequest().StartRevision == 0:
			now.Add(1)
		default:
			past.Add(1)
		}
	}))
	held := hold(t, holder, t.Name())
	waiter := claim(t.Name(), true)
	granted := begin(t, b, waiter)
	eventually.Is(t, "a watch", func() bool { return now.Load()+past.Load() > 0 })
	release(t, holder, held)
	must(t, soon(t, "the grant", granted))
	release(t, b, waiter)
	if now.Load() == 0 || past.Load() > 0 {
		t.Errorf("%d watches begin now, %d in the past", now.Load(), past.Load())
	}
}

// TestWatchIsUsedAgain: who waits for the same Locker again and again uses the watch that it has,
// and needs no look when the wait begins.
func TestWatchIsUsedAgain(t *testing.T) {
	t.Parallel()
	e := servers.NewEtcd(t, servers.EtcdOptions{})
	c := dial(t, e.Addr())
	holder, b := driverOf(t, c), driverOf(t, c)
	wait := func() {
		held := hold(t, holder, t.Name())
		waiter := claim(t.Name(), true)
		granted := begin(t, b, waiter)
		eventually.Is(t, "watch in use", func() bool {
			b.subscription.mu.Lock()
			defer b.subscription.mu.Unlock()
			return watchers(t, e) >= 1 && b.subscription.kept == nil // after longWait its own key, too
		})
		release(t, holder, held)
		must(t, soon(t, "the grant", granted))
		release(t, b, waiter)
	}
	var by map[string]int64
	excess := locktest.Requests(0, func() int64 { // a late machine may need the watch again only when it is no longer kept
		wait()
		since := requests(t, e)
		wait()
		wait()
		_, by = since()
		return by["Watch/Watch"] + max(0, by["KV/Range"]-3) + max(by["KV/Txn"]-8, 8-by["KV/Txn"])
	})
	if excess > 0 {
		t.Errorf("two more waits: %v", by)
	}
	eventually.Is(t, "no watch", func() bool { return watchers(t, e) == 0 })
}

// TestWatchThatHasToldOthers: a reader that learns of its place late, and goes on with the watch of one that was granted
// meanwhile, is not told again of what that was told. It looks at once.
func TestWatchThatHasToldOthers(t *testing.T) {
	t.Parallel()
	addr := servers.SharedEtcd(t).Addr()
	c := dial(t, addr)
	holder := driverOf(t, c)
	var count atomic.Bool
	var joined, blind atomic.Int64 // who joined the queue; looks that nobody gave a reason for
	var answer chan struct{}
	b := driverOf(t, dialThrough(t, addr, func(_ context.Context, _ string, req, reply any, do func(reply any) error) error {
		if r, ok := req.(*pb.RangeRequest); ok && count.Load() && !r.Serializable {
			blind.Add(1)
		}
		late := joins(req, t.Name()) && joined.Add(1) == 2
		err := do(reply)
		if late {
			<-answer
		}
		return err
	}, nil))
	excess := locktest.Requests(0, func() int64 { // a late machine may need another watch, and look before that has begun
		answer = make(chan struct{})
		blind.Store(0)
		joined.Store(0)
		held := hold(t, holder, t.Name())
		first, second := claimOf(t.Name(), 1, driver.All), claimOf(t.Name(), 1, driver.All)
		firstGranted := begin(t, b, first)
		queueHas(t, c, t.Name(), 2)
		secondGranted := begin(t, b, second)
		queueHas(t, c, t.Name(), 3)
		release(t, holder, held)
		must(t, soon(t, "the first grant", firstGranted))
		count.Store(true)
		close(answer)
		must(t, soon(t, "the second grant", secondGranted))
		count.Store(false)
		release(t, b, first)
		release(t, b, second)
		return blind.Load()
	})
	if excess > 0 {
		t.Error("the second looked only because nothing had happened for long")
	}
}

// TestWatchIsKeptAgain: a watch that is kept, used and kept again is kept for as long as it was the first time.
func TestWatchIsKeptAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		b, w := new(backend), &watch{key: "x", stream: t.Context(), stop: stop}
		sub := &b.subscription
		sub.life = w.stream
		sub.unwatch(w)
		time.Sleep(keepFor / 2)
		if b.watch(w.key) != w {
			t.Fatal("the watch is not used again")
		}
		sub.unwatch(w)
		for _, kept := range []bool{true, false} {
			time.Sleep(keepFor * 3 / 4)
			synctest.Wait()
			sub.mu.Lock()
			if sub.kept == w != kept || ctx.Err() == nil != kept {
				t.Errorf("kept: %v (%v), want %v", sub.kept == w, ctx.Err(), kept)
			}
			sub.mu.Unlock()
		}
	})
}

// A watch that ends before the server's confirmation has come leaves nothing on the server: neither one whose waiter
// has gone, nor one that was given up because the server was silent.
func TestWatchThatEndsUnconfirmed(t *testing.T) {
	t.Parallel()
	for what, stop := range map[string]func(*backend, *watch){
		"its waiter has gone": func(_ *backend, w *watch) { w.stop() },
		"given up":            func(b *backend, _ *watch) { b.subscription.restart() },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			e := servers.NewEtcd(t, servers.EtcdOptions{})
			p := front(t, e.Addr())
			c := dial(t, p.Addr())
			b := driverOf(t, c)
			if _, err := c.Get(t.Context(), "connect"); err != nil {
				t.Fatal(err)
			}
			p.FreezeDown()
			w := b.watch(t.Name())
			eventually.Is(t, "the watch", func() bool { return watchers(t, e) == 1 })
			stop(b, w)
			p.Heal()
			eventually.Is(t, "no watch", func() bool { return watchers(t, e) == 0 })
		})
	}
}

// TestWaitThatTimesOut asks the server for nothing but to be taken out of the queue.
func TestWaitThatTimesOut(t *testing.T) {
	t.Parallel()
	e := servers.NewEtcd(t, servers.EtcdOptions{})
	c := dial(t, e.Addr())
	b := driverOf(t, c)
	hold(t, b, t.Name())
	var by map[string]int64
	// A late machine may have no answer in time, not even about its place in the queue, and asks why.
	excess := locktest.Requests(0, func() (n int64) {
		since := requests(t, e)
		for range 5 {
			waiter := claim(t.Name(), true)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // less than longWait
			_, err := b.Acquire(ctx, waiter)
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			abandon(t, b, waiter)
		}
		n, by = since()
		return max(0, n-5*4) + by["Maintenance/Status"]
	})
	if excess > 0 {
		t.Errorf("five waits that timed out: %v", by)
	}
}

// TestEventsOfOneRevision: when a lease ends all its keys are deleted at one revision. Who waits for permits
// takes in each, and nothing that it has seen before.
func TestEventsOfOneRevision(t *testing.T) {
	cs := &claimState{claim: claimOf("x", 2, 2), queue: "x#", key: "x#mine"}
	v := newView(cs, []entry{{key: "x#a", weight: 1, limit: 2}, {key: "x#b", weight: 1, limit: 2}}, 5)
	deleted := func(key string, rev int64) *clientv3.Event {
		return &clientv3.Event{Type: clientv3.EventTypeDelete, Kv: &mvccpb.KeyValue{Key: []byte(key), ModRevision: rev}}
	}
	if v.apply(cs, []*clientv3.Event{deleted("x#a", 4), deleted("x#b", 5)}) {
		t.Error("granted by what happened before the look")
	}
	if !v.apply(cs, []*clientv3.Event{deleted("x#a", 7), deleted("x#b", 7)}) || v.rev != 7 {
		t.Errorf("not granted although both are gone: %+v", v)
	}
}

// TestManyWatches: the server confirms one watch after the other, and all of them together take longer than one may.
func TestManyWatches(t *testing.T) {
	t.Parallel()
	var confirmed int
	for range 3 { // a machine that is late is as if the server were silent
		if confirmed = manyWatches(t); confirmed == 150 {
			return
		}
	}
	t.Errorf("%d of 150 watches were confirmed", confirmed)
}

// manyWatches begins 150 watches at once over a slow network and returns how many are confirmed until one ends.
func manyWatches(t *testing.T) (confirmed int) {
	p := front(t, servers.SharedEtcd(t).Addr())
	b := driverOf(t, dial(t, p.Addr()))
	b.patience = 5 * time.Second
	p.Delay(0, 60*time.Millisecond)
	defer p.Heal()
	var all []*watch
	for i := range 150 {
		all = append(all, b.watch(fmt.Sprint(t.Name(), i)))
	}
	defer func() {
		for _, w := range all {
			w.stop()
		}
	}()
	for _, w := range all {
		select {
		case <-w.told:
			confirmed++
		case <-w.stream.Done():
			return confirmed
		}
	}
	return confirmed
}

// TestEndedWatchIsNotKept: a watch that ended with its stream is not used again when another stream has begun.
func TestEndedWatchIsNotKept(t *testing.T) {
	t.Parallel()
	b := driverOf(t, dial(t, servers.SharedEtcd(t).Addr()))
	ended := b.watch(t.Name())
	b.subscription.restart()
	other := b.watch(t.Name() + "2")
	b.subscription.unwatch(ended)
	again := b.watch(t.Name())
	if r := soon(t, "the watch", again.told); !r.Created || again == ended {
		t.Errorf("it said first: %+v", r)
	}
	b.subscription.unwatch(again)
	b.subscription.unwatch(other)
}

package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/servers"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestManySharedHolders: any number of shared holders hold together, a writer behind them is
// granted when the last goes, and readers behind the writer wait for it.
func TestManySharedHolders(t *testing.T) {
	t.Parallel()
	c := dial(t, servers.SharedEtcd(t).Addr())
	b, other := driverOf(t, c), driverOf(t, c)
	var readers []*driver.Claim
	for range 150 {
		r := claimOf(t.Name(), 1, driver.All)
		take(t, b, r)
		readers = append(readers, r)
	}
	granted := begin(t, other, claim(t.Name(), true))
	queueHas(t, c, t.Name(), 151)
	late := claimOf(t.Name(), 1, driver.All)
	lateGranted := begin(t, b, late)
	queueHas(t, c, t.Name(), 152)
	for _, r := range readers {
		if len(granted) > 0 || len(lateGranted) > 0 {
			t.Fatal("somebody was granted among the readers")
		}
		release(t, b, r)
	}
	must(t, soon(t, "the writer's grant", granted))
	if len(lateGranted) > 0 {
		t.Error("the reader behind the writer was granted")
	}
}

// TestPermits: never more than the limit inside, in the order of arrival where that matters, and no
// permit is left idle while somebody waits who could have it.
func TestPermits(t *testing.T) {
	t.Parallel()
	c := dial(t, servers.SharedEtcd(t).Addr())
	const limit = 10
	var inside atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		b := driverOf(t, c)
		for i := range 6 {
			wg.Go(func() {
				for range 15 {
					weight := int32(1 + i)
					cl := claimOf(t.Name(), weight, limit)
					if _, err := b.Acquire(t.Context(), cl); err != nil {
						t.Error(err)
						return
					}
					if n := inside.Add(int64(weight)); n > limit {
						t.Errorf("%d of %d permits", n, limit)
					}
					time.Sleep(rand.N(2 * time.Millisecond))
					inside.Add(-int64(weight))
					release(t, b, cl)
				}
			})
		}
	}
	wg.Wait()
	queueHas(t, c, t.Name(), 0)
}

// TestNoPermitIsIdle: whichever holder goes, the first waiter follows, and only that.
func TestNoPermitIsIdle(t *testing.T) {
	t.Parallel()
	c := dial(t, servers.SharedEtcd(t).Addr())
	b, other := driverOf(t, c), driverOf(t, c)
	var holders []*driver.Claim
	for range 5 {
		h := claimOf(t.Name(), 2, 10)
		take(t, b, h)
		holders = append(holders, h)
	}
	var granted []<-chan error
	for i := range 5 {
		granted = append(granted, begin(t, other, claimOf(t.Name(), 2, 10)))
		queueHas(t, c, t.Name(), 6+i)
	}
	for i, which := range []int{3, 0, 4, 1, 2} {
		release(t, b, holders[which])
		must(t, soon(t, "the grant", granted[i]))
		for _, g := range granted[i+1:] {
			if len(g) > 0 {
				t.Fatal("one behind was granted, too")
			}
		}
	}
}

// read returns what is at each of keys.
func read(t *testing.T, c *clientv3.Client, keys []string) (all []*mvccpb.KeyValue) {
	t.Helper()
	for _, key := range keys {
		r, err := c.Get(t.Context(), key)
		if err != nil || len(r.Kvs) != 1 {
			t.Fatalf("%q: %v, %v", key, r, err)
		}
		all = append(all, r.Kvs[0])
	}
	return all
}

// TestPermitsWakeOne: of those who wait for permits the first watches the whole queue, and each other the
// one ahead, which says when it is granted.
func TestPermitsWakeOne(t *testing.T) {
	t.Parallel()
	c := dial(t, servers.SharedEtcd(t).Addr())
	holder, waiter := driverOf(t, c), driverOf(t, c)
	held, second := claimOf(t.Name(), 1, 2), claimOf(t.Name(), 1, 2)
	take(t, holder, held)
	take(t, holder, second)
	var waiting []*driver.Claim
	var granted []<-chan error
	for i := range 3 {
		waiting = append(waiting, claimOf(t.Name(), 1, 2))
		granted = append(granted, begin(t, waiter, waiting[i]))
		queueHas(t, c, t.Name(), 3+i)
	}
	keys := queueHas(t, c, t.Name(), 5)
	all := read(t, c, keys)
	queue := holder.queueOf(t.Name())
	for i, want := range []string{queue, string(all[2].Key), string(all[3].Key)} {
		ahead := parseAll(all[:2+i])
		slices.Reverse(ahead)
		cs := &claimState{claim: waiting[i], queue: queue}
		v := newView(cs, ahead, all[4].ModRevision)
		if v.watches != want || v.lets(cs) {
			t.Errorf("waiter %d watches %q, want %q", i, v.watches, want)
		}
	}
	release(t, holder, held)
	must(t, soon(t, "the first", granted[0]))
	told := read(t, c, keys[2:3])[0]
	if told.CreateRevision != all[2].CreateRevision || told.ModRevision == told.CreateRevision || !bytes.Equal(told.Value, all[2].Value) {
		t.Errorf("%v says %v when it is granted", all[2], told)
	}
	cs := &claimState{claim: waiting[1], queue: queue}
	v := newView(cs, []entry{parse(all[2]), parse(all[1]), parse(all[0])}, all[4].ModRevision)
	if !v.apply(cs, []*clientv3.Event{{Type: clientv3.EventTypePut, Kv: told}}) {
		t.Error("who waits behind does not look when it is told")
	}
	release(t, holder, second)
	must(t, soon(t, "the second", granted[1]))
	release(t, waiter, waiting[0])
	must(t, soon(t, "the third", granted[2]))
}

// TestTryOfKinds: a try is granted exactly if it would be at the end of the queue.
func TestTryOfKinds(t *testing.T) {
	t.Parallel()
	b := driverOf(t, dial(t, servers.SharedEtcd(t).Addr()))
	try := func(weight, limit int32, want error) {
		t.Helper()
		c := claimOf(t.Name(), weight, limit)
		c.Wait = false
		if _, err := b.Acquire(t.Context(), c); !errors.Is(err, want) {
			t.Errorf("%d of %d: %v, want %v", weight, limit, err, want)
		}
	}
	try(3, 10, nil)
	try(4, 10, nil)
	try(4, 10, driver.ErrTaken)
	try(3, 10, nil)
	try(1, 10, driver.ErrTaken)
	try(driver.All, driver.All, driver.ErrTaken)
}

// TestTryOfBusyName: a try ends after a few requests, although others take permits before each, and leaves nothing behind.
func TestTryOfBusyName(t *testing.T) {
	t.Parallel()
	e := servers.SharedEtcd(t)
	c := dial(t, e.Addr())
	for takes, want := range map[int32]error{1: nil, 500: driver.ErrTaken} {
		t.Run(fmt.Sprint(takes), func(t *testing.T) {
			t.Parallel()
			other := driverOf(t, c)
			asked, keys := 0, 0
			b := driverOf(t, dialThrough(t, e.Addr(), func(_ context.Context, _ string, req, reply any, do func(any) error) error {
				if joins(req, t.Name()) {
					if asked++; asked <= 2 || takes == 1 && asked <= 20 {
						take(t, other, claimOf(t.Name(), takes, 1000))
						keys++
					}
				}
				return do(reply)
			}, nil))
			try := claimOf(t.Name(), 1, 1000)
			try.Wait = false
			if _, err := b.Acquire(t.Context(), try); !errors.Is(err, want) || asked > 10 { // a server that is late may want some again
				t.Errorf("%v after %d requests, want %v after a few", err, asked, want)
			}
			if want == nil {
				keys++
			}
			queueHas(t, c, t.Name(), keys)
		})
	}
}

// TestLighten: a downgrade lets the readers behind in, keeps the token, and leaves a writer
// waiting until all are gone.
func TestLighten(t *testing.T) {
	t.Parallel()
	c := dial(t, servers.SharedEtcd(t).Addr())
	b, other := driverOf(t, c), driverOf(t, c)
	held := claim(t.Name(), true)
	g := take(t, b, held)
	reader, second := claimOf(t.Name(), 1, driver.All), claimOf(t.Name(), 1, driver.All)
	granted := begin(t, other, reader)
	queueHas(t, c, t.Name(), 2)
	// Behind a claim of permits that is not alone in the way: it watches the whole queue.
	grantedSecond := begin(t, other, second)
	queueHas(t, c, t.Name(), 3)
	writer := begin(t, other, claim(t.Name(), true))
	queueHas(t, c, t.Name(), 4)

	must(t, b.Lighten(t.Context(), held, 1), soon(t, "the reader", granted), soon(t, "the second reader", grantedSecond))
	must(t, b.Lighten(t.Context(), held, 1)) // again is harmless
	ps, err := b.Look(t.Context(), t.Name())
	if err != nil || len(ps) != 4 || ps[0].Token != g.Token || ps[0].Weight != 1 || !ps[1].Held || ps[3].Held {
		t.Errorf("%+v %v", ps, err)
	}
	release(t, b, held)
	release(t, other, reader)
	if len(writer) > 0 {
		t.Error("the writer was granted beside a reader")
	}
	release(t, other, second)
	must(t, soon(t, "the writer", writer))
	if err := b.Lighten(t.Context(), held, 1); !errors.Is(err, driver.ErrGone) {
		t.Errorf("downgrade after the release: %v", err)
	}
}

// TestLightenPermits: permits that a holder gives back wake who watches the whole queue.
func TestLightenPermits(t *testing.T) {
	t.Parallel()
	c := dial(t, servers.SharedEtcd(t).Addr())
	b := driverOf(t, c)
	one, two := claimOf(t.Name(), 5, 10), claimOf(t.Name(), 5, 10)
	take(t, b, one)
	take(t, b, two)
	granted := begin(t, driverOf(t, c), claimOf(t.Name(), 4, 10))
	queueHas(t, c, t.Name(), 3)
	must(t, b.Lighten(t.Context(), one, 3))
	eventually.Is(t, "the first is lighter", func() bool {
		ps, err := b.Look(t.Context(), t.Name())
		return err == nil && ps[0].Weight == 3
	})
	if len(granted) > 0 {
		t.Error("granted too early")
	}
	must(t, b.Lighten(t.Context(), two, 3), soon(t, "the grant", granted))
}

// TestLinger: the name stays taken for as long as asked for, also after the end of the Locker
// that had it, and then it is passed on; the Locker can queue again meanwhile.
func TestLinger(t *testing.T) {
	t.Parallel()
	c := dial(t, servers.SharedEtcd(t).Addr())
	b, other := driverOf(t, c), driverOf(t, c)
	held := hold(t, b, t.Name())
	const d = 30 * time.Second
	before := time.Now()
	must(t, b.Linger(t.Context(), held, d))
	ps, err := other.Look(t.Context(), t.Name())
	if err != nil || len(ps) != 1 || !ps[0].Held || ps[0].ID != held.ID || ps[0].Left > d+time.Second || ps[0].Left < time.Second {
		t.Fatalf("%+v %v", ps, err)
	}
	if _, err := b.Acquire(t.Context(), claim(t.Name(), false)); !errors.Is(err, driver.ErrTaken) {
		t.Errorf("a try of the same Locker: %v", err)
	}
	granted := begin(t, other, claim(t.Name(), true))
	queueHas(t, c, t.Name(), 2)
	must(t, b.Close(t.Context()))
	must(t, locktest.Receive(t, "the next grant", granted, d+30*time.Second))
	if took := time.Since(before); took < d {
		t.Errorf("it was passed on after %v", took)
	}
	if err := b.Linger(t.Context(), held, d); err == nil {
		t.Error("it lingered again after Close")
	}
	left, err := c.Leases(t.Context())
	must(t, err)
	for _, l := range left.Leases {
		ttl, err := c.TimeToLive(t.Context(), l.ID, clientv3.WithAttachedKeys())
		if err == nil && len(ttl.Keys) > 0 && string(ttl.Keys[0]) == held.State.(*claimState).key {
			t.Error("the lease of the one that lingered is still there")
		}
	}
}

// TestLingerOfWhatIsGone: what is no longer held is not taken again.
func TestLingerOfWhatIsGone(t *testing.T) {
	t.Parallel()
	c := dial(t, servers.SharedEtcd(t).Addr())
	b := driverOf(t, c)
	held := hold(t, b, t.Name())
	remove(t, c, keysOf(t, c, t.Name())[0])
	if err := b.Linger(t.Context(), held, time.Minute); !errors.Is(err, driver.ErrGone) {
		t.Errorf("%v, want ErrGone", err)
	}
	queueHas(t, c, t.Name(), 0)
}

// TestTokens: the token is the create revision with room for hand-overs, also when the lock was
// waited for while the store's revision went on.
func TestTokens(t *testing.T) {
	t.Parallel()
	c := dial(t, servers.SharedEtcd(t).Addr())
	b, other := driverOf(t, c), driverOf(t, c)
	first := claim(t.Name(), true)
	g := take(t, b, first)
	next := make(chan driver.Grant, 1)
	go func() {
		g, err := other.Acquire(t.Context(), claim(t.Name(), true))
		if err != nil {
			t.Error(err)
		}
		next <- g
	}()
	keys := queueHas(t, c, t.Name(), 2)
	for range 3 {
		put(t, c, fmt.Sprint(t.Name(), "-else"), "")
	}
	release(t, b, first)
	h := soon(t, "the next grant", next)
	r, err := c.Get(t.Context(), keys[1])
	if err != nil || len(r.Kvs) != 1 || h.Token != r.Kvs[0].CreateRevision*1024 {
		t.Errorf("token %d, key %v %v", h.Token, r, err)
	}
	if g.Spare != 1023 || h.Token <= g.Token+g.Spare {
		t.Errorf("token %d after %d and %d more", h.Token, g.Token, g.Spare)
	}
	few := claim(t.Name()+"few", true)
	few.Spare = 5
	if g := take(t, b, few); g.Spare != 5 {
		t.Errorf("%d spare tokens, 5 could be used", g.Spare)
	}
}

// TestRevisionTooGreat: a revision that does not fit into a token is refused.
func TestRevisionTooGreat(t *testing.T) {
	b := &backend{clock: locker.SystemClock()}
	s := &session{gone: t.Context(), ttl: time.Hour}
	s.sent.Store(int64(b.clock.Now()))
	for rev, want := range map[int64]error{1<<53 - 1: nil, 1 << 53: driver.ErrRefused} {
		cs := &claimState{claim: claim(t.Name(), true), session: s, rev: rev}
		if _, err := b.grant(t.Context(), cs); !errors.Is(err, want) {
			t.Errorf("revision %d: %v, want %v", rev, err, want)
		}
	}
}

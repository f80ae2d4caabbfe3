package zookeeper

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/servers"
)

// A relay is a client that holds a name, waits for it a second time, and wants a third
// claim taken along when it releases the first.
type relay struct {
	*backend
	t                     testing.TB
	op                    operator
	holder, waiter, third *driver.Claim
	turn                  chan outcome // of the waiter
}

// relays has a client of addr hold a name. Its waiter does not ask yet.
func relays(t testing.TB, op operator, addr string) *relay {
	t.Helper()
	r := &relay{backend: raw(t, []string{addr}), t: t, op: op}
	n := name(t)
	r.holder, _ = claim(t, n)
	r.waiter, _ = claim(t, n)
	r.third, _ = claim(t, n)
	take(t, r.backend, r.holder)
	return r
}

// settled has the waiter wait, too, and watch the holder.
func (r *relay) settled() *relay {
	r.t.Helper()
	r.turn = begin(within(r.t, time.Minute), r.backend, r.waiter)
	eventually.Is(r.t, "the waiter to watch", func() bool {
		r.mu.Lock()
		n := r.waiting[queuePath(folder, r.waiter.Name)]
		r.mu.Unlock()
		if n == nil {
			return false
		}
		n.place.mu.Lock()
		defer n.place.mu.Unlock()
		return n.place.watched != nil
	})
	r.told()
	return r
}

func (r *relay) told() { (&user{backend: r.backend, t: r.t}).told() }

// relay releases the holder, with next along.
func (r *relay) relay(ctx context.Context, next *driver.Claim) (joined bool, err error) {
	err = r.Relay(ctx, r.holder, next, func() { joined = true })
	return joined, err
}

// goes releases the holder and says whether the third was taken along.
func (r *relay) goes() (joined bool) {
	r.t.Helper()
	joined, err := r.relay(within(r.t, time.Minute), r.third)
	if err != nil {
		r.t.Fatalf("release: %v", err)
	}
	return joined
}

// stays asserts that the third was left alone.
func (r *relay) stays(joined bool) {
	r.t.Helper()
	if joined || r.third.State != nil {
		r.t.Fatalf("taken along: %v, state %v", joined, r.third.State)
	}
}

// follows asserts that the waiter has its turn and after it the third, and that nothing is left.
func (r *relay) follows(third chan outcome) {
	r.t.Helper()
	first := await(r.t, r.turn, "the waiter's turn").ok(r.t)
	r.told()
	notYet(r.t, third)
	r.frees(r.waiter)
	if second := await(r.t, third, "the third's turn").ok(r.t); second.Token <= first.Token {
		r.t.Errorf("tokens %d, %d", first.Token, second.Token)
	}
	r.frees(r.third)
	r.op.length(r.holder.Name, 0)
}

// notYet asserts that nothing has come of an Acquire, as far as the client has been told.
func notYet(t testing.TB, turn chan outcome) {
	t.Helper()
	select {
	case o := <-turn:
		t.Fatalf("it is not its turn: %+v", o)
	default:
	}
}

func (r *relay) frees(c *driver.Claim) {
	r.t.Helper()
	if err := r.Release(within(r.t, time.Minute), c); err != nil {
		r.t.Fatalf("release: %v", err)
	}
}

// The one that the name goes to learns of it when the next is said to be in its place, not before.
func TestNextIsInPlaceFirst(t *testing.T) {
	beside(t)
	z := servers.SharedZooKeeper(t)
	r := relays(t, console(t, z.Addr()), z.Addr()).settled()
	joined := false
	if err := r.Relay(within(t, time.Minute), r.holder, r.third, func() {
		joined = true
		select {
		case o := <-r.turn:
			t.Fatalf("before: %+v", o)
		case <-time.After(50 * time.Millisecond):
		}
	}); err != nil || !joined {
		t.Fatalf("taken along: %v, %v", joined, err)
	}
	r.follows(begin(within(t, time.Minute), r.backend, r.third))
}

// Each turn takes one transaction and one request for watches.
func TestReleaseBringsTheNext(t *testing.T) {
	beside(t)
	z := servers.NewZooKeeper(t, servers.ZooKeeperOptions{})
	m := spy(t, z.Addr())
	r := relays(t, console(t, z.Addr()), m.addr()).settled()
	wrote, watched := m.asked(opMulti), m.asked(opSetWatches)
	listed, deleted := m.asked(opGetChildren), m.asked(opDelete)
	const n = 6
	var last int64
	for i := range n {
		r.holder.Lost = func(err error) { t.Errorf("told of a loss by its own release: %v", err) }
		if !r.goes() {
			t.Fatalf("%d: not taken along", i)
		}
		third := begin(within(t, time.Minute), r.backend, r.third)
		g := await(t, r.turn, "turn").ok(t)
		if i > 1 && g.Token != last+1 {
			t.Errorf("token %d after %d: there was another transaction", g.Token, last)
		}
		last = g.Token
		r.turn = third
		r.holder, r.waiter = r.waiter, r.third
		r.third, _ = claim(t, r.holder.Name)
		r.told()
	}
	if got := m.asked(opMulti) - wrote; got != n {
		t.Errorf("%d transactions for %d turns", got, n)
	}
	if got := m.asked(opSetWatches) - watched; got != n {
		t.Errorf("%d requests for watches for %d turns", got, n)
	}
	if l, d := m.asked(opGetChildren)-listed, m.asked(opDelete)-deleted; l+d != 0 {
		t.Errorf("%d lists, %d deletes", l, d)
	}
	r.frees(r.holder)
	await(t, r.turn, "the last turn").ok(t)
	r.frees(r.waiter)
	r.op.length(r.holder.Name, 0)
	if w := word(t, z, "wchs"); !strings.Contains(w, "Total watches:0") {
		t.Errorf("watches are left: %s", w)
	}
	if len(r.waiting)+len(r.session.holders) != 0 {
		t.Errorf("%d waiters and %d holders are left", len(r.waiting), len(r.session.holders))
	}
}

// onTheWay has the waiter ask, with its request held up, and the holder released behind it.
// What is done in between is done before the server hears of either.
func (r *relay) onTheWay(m *middleman, between func()) (joined bool) {
	r.t.Helper()
	letGo := m.hold(r.t, opMulti)
	asked := m.asked(opMulti)
	r.turn = begin(within(r.t, time.Minute), r.backend, r.waiter)
	eventually.Is(r.t, "the waiter to ask", func() bool { return m.asked(opMulti) == asked+1 })
	between()
	w, _ := r.session.now()
	done := make(chan bool)
	go func() { done <- r.goes() }()
	eventually.Is(r.t, "the release to be sent", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.waiting) == 2
	})
	letGo()
	return await(r.t, done, "release")
}

// After a very short holding the waiter may only just have asked for its place.
func TestReleaseBringsTheNextBehindOneOnTheWay(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	m := spy(t, z.Addr())
	r := relays(t, console(t, z.Addr()), m.addr())
	if !r.onTheWay(m, func() {}) {
		t.Fatal("not taken along")
	}
	third := begin(within(t, time.Minute), r.backend, r.third)
	r.told()
	if n := m.asked(opGetChildren); n != 1 { // by the waiter
		t.Errorf("%d lists", n)
	}
	if n := m.asked(opDelete); n != 0 {
		t.Errorf("%d deletes", n)
	}
	r.follows(third)
}

// Where a client of another Locker is the next, nobody is taken along: it would be a second
// one of this Locker who waits at the server.
func TestReleaseBringsNobodyWhenAnotherIsNext(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op := console(t, z.Addr())
	for what, release := range map[string]func(*relay, *middleman) (other *user, joined bool){
		"waiting": func(r *relay, m *middleman) (*user, bool) {
			other := queues(t, op, z.Addr(), r.holder.Name)
			return other, r.settled().goes()
		},
		"on the way": func(r *relay, m *middleman) (other *user, joined bool) {
			joined = r.onTheWay(m, func() { other = queues(t, op, z.Addr(), r.holder.Name) })
			return other, joined
		},
	} {
		t.Run(what, func(t *testing.T) {
			m := spy(t, z.Addr())
			r := relays(t, op, m.addr())
			other, joined := release(r, m)
			r.stays(joined)
			other.holds()
			op.length(r.holder.Name, 2)
			third := begin(within(t, time.Minute), r.backend, r.third)
			op.nodeOf(r.third)
			r.told()
			notYet(t, r.turn)
			other.releases()
			r.follows(third)
		})
	}
}

// Nobody is taken along by a release that has more to do, or where the server would refuse it.
func TestReleaseThatBringsNobody(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op := console(t, z.Addr())
	for what, is := range map[string]func(*place){
		"asked for twice":      func(p *place) { p.repeated = true },
		"released before":      func(p *place) { p.deleting = true },
		"not known since when": func(p *place) { p.version = 0 },
		"gone: other session":  func(p *place) { p.session++ },
		"gone: worn queue":     func(p *place) { p.node = p.queue + "/" + p.claim.ID + mark + "1073741824" },
	} {
		t.Run(what, func(t *testing.T) {
			m := spy(t, z.Addr())
			r := relays(t, op, m.addr()).settled()
			is(placeOf(r.holder))
			wrote := m.asked(opMulti)
			joined, err := r.relay(within(t, time.Minute), r.third)
			r.stays(joined)
			if gone := strings.HasPrefix(what, "gone"); errors.Is(err, driver.ErrGone) != gone || !gone && err != nil {
				t.Errorf("release: %v", err)
			}
			if n := m.asked(opMulti) - wrote; n != 0 {
				t.Errorf("%d transactions", n)
			}
		})
	}
	t.Run("that saw others", func(t *testing.T) {
		m := spy(t, z.Addr())
		r := relays(t, op, m.addr())
		placeOf(r.holder).alone = false
		if r.onTheWay(m, func() {}) {
			t.Error("taken along")
		}
	})
}

// Whoever is taken along stands behind all who are there, and finds out behind whom.
func TestNextComesLast(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op := console(t, z.Addr())
	r := relays(t, op, z.Addr()).settled()
	other := queues(t, op, z.Addr(), r.holder.Name)
	if !r.goes() {
		t.Fatal("not taken along")
	}
	third := begin(within(t, time.Minute), r.backend, r.third)
	await(t, r.turn, "the waiter's turn").ok(t)
	r.told()
	r.frees(r.waiter)
	other.holds()
	r.told()
	notYet(t, third)
	other.releases()
	await(t, third, "the third's turn").ok(t)
	r.frees(r.third)
	op.length(r.holder.Name, 0)
}

// Who has its turn by a release of its own Locker has it once that has returned: only then
// the next is in place, and can be told of when this one is released.
func TestTurnComesWithTheNextInPlace(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	r := relays(t, console(t, z.Addr()), z.Addr()).settled()
	handed := make(chan struct{})
	r.mu.Lock()
	r.waiting[queuePath(folder, r.holder.Name)].handed = handed
	r.mu.Unlock()
	r.frees(r.holder)
	r.told()
	notYet(t, r.turn)
	close(handed)
	await(t, r.turn, "the waiter's turn").ok(t)
	r.frees(r.waiter)
}

// Goroutines that give the name back at once come to be brought by one another, and so take about
// one transaction each instead of two.
func TestGoroutinesBringOneAnother(t *testing.T) {
	beside(t)
	z := servers.SharedZooKeeper(t)
	m := spy(t, z.Addr())
	l := open(t, []string{m.addr()})
	n := name(t)
	var wg sync.WaitGroup
	const workers, turns = 16, 50
	for range workers {
		wg.Go(func() {
			for range turns {
				if !uses(t, l, n) {
					return
				}
			}
		})
	}
	wg.Wait()
	wrote := float64(m.asked(opMulti)+m.asked(opDelete)) / (workers * turns)
	t.Logf("%.2f transactions and %.2f lists for each", wrote, float64(m.asked(opGetChildren))/(workers*turns))
	if wrote > 1.5 {
		t.Errorf("%.2f transactions for each", wrote)
	}
}

package memory_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/memory"
	"pgregory.net/rapid"
)

// model is the one rule: a queue in the order of arrival.
type model []*seat

type seat struct {
	*driver.Claim
	weight int32 // as lightened
	held   bool
	until  time.Time
}

func (m *model) settle(now time.Time) {
	*m = slices.DeleteFunc(*m, func(s *seat) bool { return s.held && !now.Before(s.until) })
	var ahead int64
	for _, s := range *m {
		if !s.held && ahead+int64(s.weight) <= int64(s.Limit) {
			s.held, s.until = true, now.Add(s.TTL)
		}
		ahead += int64(s.weight)
	}
}

// pass lets time go by, from the end of one holding to that of the next.
func (m *model) pass(to time.Time) {
	for {
		next := to
		for _, s := range *m {
			if s.held && s.until.Before(next) {
				next = s.until
			}
		}
		if m.settle(next); next.Equal(to) {
			return
		}
	}
}

func (m *model) remove(id string) {
	*m = slices.DeleteFunc(*m, func(s *seat) bool { return s.ID == id })
	m.settle(time.Now())
}

func (m model) find(id string) *seat {
	if i := slices.IndexFunc(m, func(s *seat) bool { return s.ID == id }); i >= 0 {
		return m[i]
	}
	return nil
}

func (m model) waits() bool { return slices.ContainsFunc(m, func(s *seat) bool { return !s.held }) }

// taker is the maker of one claim.
type taker struct {
	*driver.Claim
	giveUp       context.CancelFunc
	acquired     chan struct{} // closed when Acquire has returned grant and err
	grant        driver.Grant
	err          error
	lost, wanted atomic.Int32
	evicted      bool // while it held
	over         bool // it makes no more calls
	seen         bool // its grant has been checked
}

func (k *taker) back() bool {
	select {
	case <-k.acquired:
		return true
	default:
		return false
	}
}

// world is the driver beside the model.
type world struct {
	driver.Driver
	model
	takers []*taker
	token  int64 // the greatest known, spare ones included
}

const name = "x"

// TestRule lets takers of all kinds do at random what takers do, and die, and compares the
// store with the model after each step.
func TestRule(t *testing.T) {
	rule := func(t *rapid.T) {
		rapid.SyncTest(t, func(t *rapid.T) {
			w := &world{Driver: memory.NewStore().Driver(locker.TimeClock{})}
			defer func() {
				for _, k := range w.takers {
					k.giveUp()
				}
				synctest.Wait()
			}()
			t.Repeat(map[string]func(*rapid.T){
				"":        w.check,
				"acquire": w.acquire,
				"give up": w.abandon,
				"release": w.release,
				"renew":   w.renew,
				"lighten": w.lighten,
				"linger":  w.linger,
				"evict":   w.evict,
				"wait":    w.wait,
			})
		})
	}
	for range 10 { // each a hundred times
		rapid.Check(t, rule)
	}
}

func (w *world) acquire(t *rapid.T) {
	k := &taker{acquired: make(chan struct{}), Claim: &driver.Claim{
		Name: name, ID: fmt.Sprintf("%032x", len(w.takers)),
		Weight: driver.All, Limit: driver.All,
		Spare: rapid.Int32Range(0, 9).Draw(t, "spare"),
		TTL:   time.Duration(rapid.IntRange(1, 9).Draw(t, "TTL")) * time.Second,
		Lease: rapid.Bool().Draw(t, "lease"),
		Wait:  rapid.IntRange(0, 3).Draw(t, "wait") > 0,
	}}
	k.Lost, k.Wanted = func(error) { k.lost.Add(1) }, func() { k.wanted.Add(1) }
	switch rapid.SampledFrom([]string{"exclusive", "shared", "permits"}).Draw(t, "kind") {
	case "shared":
		k.Weight = 1
	case "permits":
		k.Limit = rapid.SampledFrom([]int32{3, 3, 3, 1, 5}).Draw(t, "limit")
		k.Weight = rapid.Int32Range(1, k.Limit).Draw(t, "weight")
	}
	var ctx context.Context
	ctx, k.giveUp = context.WithCancel(context.Background())
	go func() {
		k.grant, k.err = w.Acquire(ctx, k.Claim)
		close(k.acquired)
	}()
	w.takers = append(w.takers, k)
	s := &seat{Claim: k.Claim, weight: k.Weight}
	w.model = append(w.model, s)
	w.settle(time.Now())
	synctest.Wait()
	if !s.held && !k.Wait {
		w.remove(k.ID)
		k.over = true
		if !errors.Is(k.err, driver.ErrTaken) {
			t.Fatalf("%s did not fit: %v", k.ID, k.err)
		}
	}
}

// pick chooses one of those who have calls to make: granted, or still in Acquire.
func (w *world) pick(t *rapid.T, granted bool) *taker {
	some := slices.DeleteFunc(slices.Clone(w.takers), func(k *taker) bool { return k.over || k.back() != granted })
	if len(some) == 0 {
		t.Skip("nobody")
	}
	return rapid.SampledFrom(some).Draw(t, "taker")
}

func (w *world) abandon(t *rapid.T) {
	k := w.pick(t, rapid.Bool().Draw(t, "granted"))
	k.giveUp()
	synctest.Wait()
	for range 2 {
		w.expect(t, w.Abandon(context.Background(), k.Claim), true)
	}
	k.over = true
	w.remove(k.ID)
}

func (w *world) expect(t *rapid.T, err error, held bool) {
	if held && err != nil || !held && !errors.Is(err, driver.ErrGone) {
		t.Fatalf("held: %v, answer: %v", held, err)
	}
}

func (w *world) release(t *rapid.T) {
	k := w.pick(t, true)
	w.expect(t, w.Release(context.Background(), k.Claim), w.find(k.ID) != nil)
	k.over = true
	w.remove(k.ID)
}

func (w *world) renew(t *rapid.T) {
	var claims []*driver.Claim
	for _, k := range w.takers {
		if !k.over && k.back() && rapid.Bool().Draw(t, "renewed") {
			claims = append(claims, k.Claim)
		}
	}
	reports := 0
	w.Renew(context.Background(), claims, func(c *driver.Claim, until driver.Instant, err error) {
		reports++
		s := w.find(c.ID)
		w.expect(t, err, s != nil)
		if s == nil {
			return
		}
		if !c.Lease {
			s.until = time.Now().Add(c.TTL)
		}
		if left := until.Sub(locker.TimeClock{}.Now()); left != time.Until(s.until) {
			t.Fatalf("renewed for %v, want %v", left, time.Until(s.until))
		}
	})
	if reports != len(claims) {
		t.Fatalf("%d reports of %d claims", reports, len(claims))
	}
}

func (w *world) lighten(t *rapid.T) {
	k := w.pick(t, true)
	s := w.find(k.ID)
	weight := int32(1)
	if s != nil {
		weight = rapid.Int32Range(1, min(s.weight, 4)).Draw(t, "weight")
		s.weight = weight
		w.settle(time.Now())
	}
	w.expect(t, w.Driver.(driver.Weigher).Lighten(context.Background(), k.Claim, weight), s != nil)
}

func (w *world) linger(t *rapid.T) {
	k := w.pick(t, true)
	s := w.find(k.ID)
	d := time.Duration(rapid.IntRange(0, 9).Draw(t, "for")) * time.Second
	if s != nil {
		s.until = time.Now().Add(d)
		w.settle(time.Now())
	}
	w.expect(t, w.Driver.(driver.Lingerer).Linger(context.Background(), k.Claim, d), s != nil)
	k.over = true
}

func (w *world) evict(t *rapid.T) {
	if len(w.takers) == 0 {
		t.Skip("nobody")
	}
	k := rapid.SampledFrom(w.takers).Draw(t, "whom")
	s := w.find(k.ID)
	w.expect(t, w.Driver.(driver.Evictor).Evict(context.Background(), name, k.ID), s != nil)
	if s == nil {
		return
	}
	k.evicted = s.held
	w.remove(k.ID)
	if !s.held {
		w.model = append(w.model, s)
		w.settle(time.Now())
	}
}

func (w *world) wait(t *rapid.T) {
	d := time.Duration(rapid.IntRange(1, 40).Draw(t, "quarters")) * time.Second / 4
	w.pass(time.Now().Add(d))
	time.Sleep(d)
}

func (w *world) check(t *rapid.T) {
	synctest.Wait()
	var grants []driver.Grant
	for _, k := range w.takers {
		s := w.find(k.ID)
		switch {
		case s != nil && s.held != k.back():
			t.Fatalf("%s holds: %v, back from Acquire: %v", k.ID, s.held, k.back())
		case k.back() && k.err == nil && !k.seen:
			grants = append(grants, k.grant)
			k.seen = true
		}
		if s != nil && s.held && !k.over && (w.waits() && k.wanted.Load() == 0 || k.wanted.Load() > 1) {
			t.Fatalf("%s was told %d times that it is wanted", k.ID, k.wanted.Load())
		}
		if k.evicted != (k.lost.Load() == 1) || k.lost.Load() > 1 {
			t.Fatalf("%s evicted: %v, told %d times of a loss", k.ID, k.evicted, k.lost.Load())
		}
	}
	slices.SortFunc(grants, func(a, b driver.Grant) int { return int(a.Token - b.Token) })
	for _, g := range grants {
		if g.Token <= w.token {
			t.Fatalf("token %d after %d", g.Token, w.token)
		}
		w.token = g.Token + g.Spare
	}
	found, err := w.Driver.(driver.Inspector).Look(context.Background(), name)
	if err != nil || len(found) != len(w.model) {
		t.Fatalf("%d claims in the queue, want %d: %v", len(found), len(w.model), err)
	}
	for i, s := range w.model {
		p := found[i]
		if p.ID != s.ID || p.Weight != s.weight || p.Held != s.held || s.held && p.Left != time.Until(s.until) {
			t.Fatalf("position %d: %+v, want %+v", i, p, s)
		}
	}
	// What the rule is for, in words that do not depend on it.
	for _, s := range w.model {
		if s.held && s.weight == driver.All && slices.ContainsFunc(found, func(p driver.Position) bool { return p.Held && p.ID != s.ID }) {
			t.Fatalf("another holds beside the exclusive holder %s", s.ID)
		}
	}
}

package zookeeper

import (
	"errors"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/servers"
)

// joins has a claim that does not wait join its queue, and do no more.
func joins(t testing.TB, d *backend, c *driver.Claim) *claimState {
	t.Helper()
	c.Wait = false
	st := &claimState{claim: c, queue: d.queuePath(c.Name)}
	c.State = st
	if _, err := d.join(st, d.sessionID()); err != nil {
		t.Fatal(err)
	}
	return st
}

// A try that is about to give up is nobody who holds the name or waits for it: it refuses no other, which looks again.
func TestTryBehindAnother(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	m := newProtocolProxy(t, z.Addr())
	reader, first, second := raw(t, []string{z.Addr()}), raw(t, []string{z.Addr()}), raw(t, []string{m.addr()})
	eventually.Is(t, "a try beside a reader to succeed", func() bool { // a late machine may take too long
		n := name(t)
		take(t, reader, shared(n))
		st := joins(t, first, claim(n))
		before := m.asked(opGetChildren)
		other := begin(within(t, time.Minute), second, trying(shared(n)))
		eventually.Is(t, "the other to look again", func() bool {
			select {
			case <-other.Done:
				return true
			default:
				return m.asked(opGetChildren) >= before+2
			}
		})
		if g, err := first.queue(within(t, time.Minute), st); !errors.Is(err, driver.ErrTaken) {
			t.Fatalf("the first: %+v, %v", g, err)
		}
		await(t, other.Done, "the other try")
		if other.Err != nil && !errors.Is(other.Err, driver.ErrTaken) {
			t.Fatal(other.Err)
		}
		return other.Err == nil
	})
}

// A try that waits in vain for another to decide gives up and leaves nothing.
func TestTryBehindAnotherThatDoesNotDecide(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op, d := console(t, z.Addr()), raw(t, []string{z.Addr()})
	n := name(t)
	take(t, d, shared(n))
	joins(t, d, claim(n))
	taken(t, d, shared(n))
	op.length(n, 2)
	taken(t, d, claim(n)) // which the reader refuses, too
	op.length(n, 2)
}

// A try does not give up when those are gone who were in its way when it listed the queue: to others it holds the name.
func TestTryGivesUpBehindHoldersOnly(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	m := newProtocolProxy(t, z.Addr())
	other, d := raw(t, []string{z.Addr()}), raw(t, []string{m.addr()})
	for what, one := range map[string]func(name string) *driver.Claim{
		"exclusive": claim,
		"permits":   func(name string) *driver.Claim { return kind(name, 1, 2) },
	} {
		held := one(name(t) + what)
		for range held.Limit / held.Weight { // as many as may hold the name
			held = one(held.Name)
			take(t, other, held)
		}
		listed, gone, freed := false, false, make(chan error, 1)
		m.mu.Lock()
		m.before = func(op int32) {
			switch {
			case op == opGetChildren:
				listed = true
			case listed && !gone && (op == opMulti || op == opDelete): // it gives up
				gone = true
				freed <- other.Release(within(t, time.Minute), held)
			}
		}
		m.mu.Unlock()
		c := trying(one(held.Name))
		take(t, d, c)
		if err := await(t, freed, "the release"); err != nil {
			t.Error(err)
		}
		release(t, d, c)
	}
}

// A try that is granted is a claim like any other: its node is replaced, and shown.
func TestGrantedTry(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	d := raw(t, []string{z.Addr()})
	c := trying(claim(name(t)))
	g := take(t, d, c)
	for _, weight := range []int32{driver.All, 1} {
		must(t, d.Lighten(t.Context(), c, weight))
		all, err := d.Look(t.Context(), c.Name)
		if err != nil || len(all) != 1 || all[0].ID != c.ID || !all[0].Held || all[0].Token != g.Token || all[0].Weight != weight {
			t.Errorf("%+v, %v, want token %d and weight %d", all, err, g.Token, weight)
		}
	}
	release(t, d, c)
}

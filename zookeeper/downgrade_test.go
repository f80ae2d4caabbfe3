package zookeeper

import (
	"errors"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/servers"
)

func TestLighten(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op, d := console(t, z.Addr()), raw(t, []string{z.Addr()})
	n := name(t)
	h := claim(n)
	take(t, d, h)
	r1, w, r2 := shared(n), claim(n), shared(n)
	one, two, three := waiting(t, op, d, r1), waiting(t, op, d, w), waiting(t, op, d, r2)
	for range 2 { // again is harmless
		must(t, d.Lighten(within(t, time.Minute), h, 1))
	}
	one.Granted(t, patience)
	stillWaits(t, two, d)
	release(t, d, r1)
	stillWaits(t, two, d)
	if err := renewed(t, d, h); err != nil {
		t.Errorf("renew: %v", err)
	}
	release(t, d, h)
	two.Granted(t, patience)
	stillWaits(t, three, d)
	release(t, d, w)
	three.Granted(t, patience)
	release(t, d, r2)
	op.length(n, 0)

	// Who comes when it is lighter already sees that.
	h = claim(n)
	take(t, d, h)
	must(t, d.Lighten(within(t, time.Minute), h, 1))
	r := shared(n)
	take(t, d, trying(r))
	taken(t, d, claim(n))
	release(t, d, h)
	release(t, d, r)
	op.length(n, 0)
}

// A permit holder that becomes lighter wakes the first who waits, which watches the queue.
func TestLightenPermits(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op, d := console(t, z.Addr()), raw(t, []string{z.Addr()})
	n := name(t)
	h, other := kind(n, 5, 10), kind(n, 4, 10)
	take(t, d, h)
	take(t, d, other)
	c := kind(n, 3, 10)
	turn := waiting(t, op, d, c)
	stillWaits(t, turn, d)
	must(t, d.Lighten(within(t, time.Minute), h, 3))
	turn.Granted(t, patience)
}

// The answer to a request to become lighter is lost, and then the node is deleted by hand, before or after it was looked for.
func TestLightenWhoseReplyIsLostAndDeletionByHand(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op, p := console(t, z.Addr()), front(t, z.Addr())
	d := raw(t, []string{p.Addr()})
	for _, looked := range []bool{false, true} {
		c := claim(name(t))
		take(t, d, c)
		p.SwallowReply(carries(opMulti), 0)
		if err := d.Lighten(within(t, time.Minute), c, 1); err == nil {
			t.Fatal("lighten without a reply")
		}
		if looked {
			if err := renewed(t, d, c); err != nil {
				t.Fatalf("renew: %v", err)
			}
		}
		op.delete(op.nodeOf(c))
		eventually.Is(t, "the holder to be told", func() bool { return errors.Is(renewed(t, d, c), driver.ErrGone) })
	}
}

// The answer to a request to become lighter is lost: whatever is asked for next finds out what came of it.
func TestLightenWhoseReplyIsLost(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op, p := console(t, z.Addr()), front(t, z.Addr())
	d, other := raw(t, []string{p.Addr()}), raw(t, []string{z.Addr()})
	ctx := within(t, time.Minute)
	for what, end := range map[string]func(c *driver.Claim) error{
		"again":   func(c *driver.Claim) error { return d.Lighten(ctx, c, 1) },
		"release": func(c *driver.Claim) error { return d.Release(ctx, c) },
		"linger":  func(c *driver.Claim) error { return d.Linger(ctx, c, time.Millisecond) },
		"abandon": func(c *driver.Claim) error { return d.Abandon(ctx, c) },
	} {
		c := claim(name(t))
		g := take(t, d, c)
		p.SwallowReply(carries(opMulti), 0)
		if err := d.Lighten(ctx, c, 1); err == nil {
			t.Fatal("lighten without a reply")
		}
		if err := renewed(t, d, c); err != nil {
			t.Errorf("%s: renew: %v", what, err)
		}
		if err := end(c); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if what == "again" {
			r := shared(c.Name)
			take(t, other, r)
			all, err := d.Look(ctx, c.Name)
			if err != nil || len(all) != 2 || !all[0].Held || all[0].Token != g.Token || all[0].Weight != 1 || all[0].Owner != c.Owner {
				t.Errorf("look: %+v, %v", all, err)
			}
			release(t, d, c)
			release(t, other, r)
		}
		op.length(c.Name, 0)
	}
}

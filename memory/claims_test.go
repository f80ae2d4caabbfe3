package memory

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
)

// over returns the driver of a process that is connected by link.
func over(link *Link) *client { return &client{link.store, link, locker.TimeClock{}} }

var ids int

// claim returns a claim that waits.
func claim(name string, weight, limit int32) *driver.Claim {
	ids++
	return &driver.Claim{
		Name: name, ID: fmt.Sprintf("%032x", ids), Owner: "worker 7",
		Weight: weight, Limit: limit, TTL: 10 * time.Second, Wait: true,
	}
}

func exclusive() *driver.Claim { return claim("x", driver.All, driver.All) }

func shared() *driver.Claim { return claim("x", 1, driver.All) }

// take has d acquire c, and returns where the grant will come.
func take(t *testing.T, d driver.Driver, c *driver.Claim) chan driver.Grant {
	t.Helper()
	got := make(chan driver.Grant, 1)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	go func() {
		g, err := d.Acquire(ctx, c)
		switch {
		case err == nil:
			got <- g
		case ctx.Err() == nil:
			t.Error(err)
		}
	}()
	synctest.Wait()
	return got
}

// held fails the test unless just those of the claims hold their name that should.
func held(t *testing.T, s *Store, want map[*driver.Claim]bool) {
	t.Helper()
	synctest.Wait()
	found := make(map[string]bool)
	for _, p := range s.Holders() {
		found[p.ID] = true
	}
	for c, want := range want {
		if found[c.ID] != want {
			t.Errorf("%s holds: %v, want %v", c.ID, found[c.ID], want)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

func gone(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, driver.ErrGone) {
		t.Errorf("%v, want ErrGone", err)
	}
}

func TestPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore()
		d := over(&Link{store: s})
		two, one, three, last := claim("x", 2, 3), claim("x", 1, 3), claim("x", 3, 3), claim("x", 1, 3)
		for _, c := range []*driver.Claim{two, one, three, last} {
			take(t, d, c)
		}
		held(t, s, map[*driver.Claim]bool{two: true, one: true, three: false, last: false})
		must(t, d.Release(t.Context(), one)) // room for the last, but three is ahead of it
		held(t, s, map[*driver.Claim]bool{two: true, three: false, last: false})
		must(t, d.Release(t.Context(), two))
		held(t, s, map[*driver.Claim]bool{three: true, last: false})
		must(t, d.Release(t.Context(), three))
		held(t, s, map[*driver.Claim]bool{last: true})
		must(t, d.Release(t.Context(), last))
		if s.Len() != 0 {
			t.Error("left over")
		}
	})
}

func TestLighten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore()
		d := over(&Link{store: s})
		c, reader, writer := exclusive(), shared(), exclusive()
		token := (<-take(t, d, c)).Token
		take(t, d, reader)
		take(t, d, writer)
		for range 2 {
			must(t, d.Lighten(t.Context(), c, 1))
		}
		held(t, s, map[*driver.Claim]bool{c: true, reader: true, writer: false})
		if p := look(s, "x")[0]; p.ID != c.ID || p.Weight != 1 || p.Limit != driver.All || p.Token != token || c.Weight != driver.All {
			t.Errorf("%+v", p)
		}
		gone(t, d.Lighten(t.Context(), writer, 1))
		must(t, d.Release(t.Context(), c))
		gone(t, d.Lighten(t.Context(), shared(), 1))
	})
}

func TestLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore()
		d := over(&Link{store: s})
		c, next := exclusive(), exclusive()
		<-take(t, d, c)
		got := take(t, d, next)
		start := time.Now()
		must(t, d.Linger(t.Context(), c, time.Minute))
		d.Renew(t.Context(), []*driver.Claim{c}, func(_ *driver.Claim, until driver.Instant, err error) {
			if left := until.Sub(d.clock.Now()); err != nil || left != time.Minute {
				t.Errorf("a renewal that came late: %v, %v", left, err)
			}
		})
		held(t, s, map[*driver.Claim]bool{c: true, next: false})
		<-got
		if took := time.Since(start); took != time.Minute {
			t.Errorf("passed on after %v", took)
		}
		must(t, d.Linger(t.Context(), next, 0))
		if s.Len() != 0 {
			t.Error("left over")
		}
		gone(t, d.Linger(t.Context(), exclusive(), time.Minute))
	})
}

// A release that was carried out is not said to be gone when it is repeated because its
// reply was lost.
func TestReleaseRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore()
		link := &Link{store: s}
		d := over(link)
		for _, release := range []func(*driver.Claim) error{
			func(c *driver.Claim) error { return d.Release(t.Context(), c) },
			func(c *driver.Claim) error { return d.Linger(t.Context(), c, time.Millisecond) },
		} {
			c := exclusive()
			<-take(t, d, c)
			link.Mute()
			if err := release(c); !errors.Is(err, errNoAnswer) {
				t.Error(err)
			}
			link.Heal()
			must(t, release(c))
			if s.Len() != 0 {
				t.Error("left over")
			}
		}
	})
}

func TestLeaseIsConfirmedOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := over(&Link{store: NewStore()})
		c := exclusive()
		c.Lease = true
		<-take(t, d, c)
		time.Sleep(9 * time.Second)
		d.Renew(t.Context(), []*driver.Claim{c}, func(_ *driver.Claim, until driver.Instant, err error) {
			if left := until.Sub(d.clock.Now()); err != nil || left != time.Second {
				t.Errorf("%v left, %v", left, err)
			}
		})
		time.Sleep(time.Second)
		d.Renew(t.Context(), []*driver.Claim{c}, func(_ *driver.Claim, _ driver.Instant, err error) { gone(t, err) })
	})
}

func TestSpareTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := over(&Link{store: NewStore()})
		last := int64(0)
		for _, spare := range []int32{0, 5000, 0, 1} {
			c := claim("x", 1, driver.All)
			c.Spare = spare
			g := <-take(t, d, c)
			if g.Token <= last || g.Spare != int64(spare) {
				t.Errorf("%+v after token %d", g, last)
			}
			last = g.Token + g.Spare
		}
	})
}

// Holders are told, once, that somebody waits: also those who became holders with others
// behind them. A try does not count.
func TestWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := over(&Link{store: NewStore()})
		told := make(map[string]int)
		wanted := func(c *driver.Claim) *driver.Claim {
			c.Wanted = func() { told[c.ID]++ }
			return c
		}
		first, second, third, try := wanted(exclusive()), wanted(exclusive()), wanted(exclusive()), exclusive()
		try.Wait = false
		<-take(t, d, first)
		if _, err := d.Acquire(t.Context(), try); err != driver.ErrTaken || len(told) != 0 {
			t.Errorf("%v, told %v", err, told)
		}
		take(t, d, second)
		take(t, d, third)
		must(t, d.Release(t.Context(), first))
		must(t, d.Release(t.Context(), second))
		if told[first.ID] != 1 || told[second.ID] != 1 || told[third.ID] != 0 {
			t.Errorf("told %v", told)
		}
	})
}

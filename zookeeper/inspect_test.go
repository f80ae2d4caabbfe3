package zookeeper

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/servers"
)

func TestLookNamesEvict(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op, d := console(t, z.Addr()), raw(t, []string{z.Addr()})
	n := name(t) + " / ä"
	if all, err := d.Look(within(t, time.Minute), n); err != nil || len(all) != 0 {
		t.Fatalf("look at a name never used: %v, %v", all, err)
	}
	h, w := kind(n, 2, 3), kind(n, 3, 3)
	start := time.Now().Add(-time.Minute)
	g := take(t, d, h)
	turn := waiting(t, op, d, w)
	all, err := d.Look(within(t, time.Minute), n)
	if err != nil || len(all) != 2 {
		t.Fatalf("look: %+v, %v", all, err)
	}
	for i, c := range []*driver.Claim{h, w} {
		p := all[i]
		if p.ID != c.ID || p.Name != n || p.Owner != c.Owner || p.Weight != c.Weight || p.Limit != c.Limit ||
			p.Held != (i == 0) || p.Since.Before(start) {
			t.Errorf("position %d: %+v", i, p)
		}
	}
	if all[0].Token != g.Token || all[1].Token != 0 {
		t.Errorf("tokens: %+v", all)
	}
	var names []string
	for one, err := range d.Names(within(t, time.Minute), n[:len(n)-1]) {
		must(t, err)
		names = append(names, one)
	}
	if len(names) != 1 || names[0] != n {
		t.Errorf("names: %q", names)
	}
	if err := d.Evict(within(t, time.Minute), n, w.ID[:31]+"x"); !errors.Is(err, driver.ErrGone) {
		t.Errorf("evict nobody: %v", err)
	}
	must(t, renewed(t, d, h))
	must(t, d.Evict(within(t, time.Minute), n, h.ID))
	turn.Granted(t, patience)
	all, err = d.Look(within(t, time.Minute), n)
	if err != nil || len(all) != 1 || !all[0].Held || !all[0].Since.IsZero() {
		t.Errorf("look at who has waited: %+v, %v", all, err)
	}
	eventually.Is(t, "the holder to be told", func() bool { return renewed(t, d, h) != nil })
	release(t, d, w)
	for one := range d.Names(within(t, time.Minute), n) {
		t.Errorf("%q is not held any more", one)
	}
}

// A holder becomes lighter, which puts another node in the place of its own, after the queue was listed.
func TestNodeReplacedMeanwhile(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	holder := raw(t, []string{z.Addr()})
	m := newProtocolProxy(t, z.Addr())
	d := raw(t, []string{m.addr()})
	ctx := within(t, time.Minute)
	for op, ask := range map[int32]func(h *driver.Claim){
		opGetData: func(h *driver.Claim) {
			all, err := d.Look(ctx, h.Name)
			if err != nil || len(all) != 1 || all[0].ID != h.ID || !all[0].Held || all[0].Weight != 1 {
				t.Errorf("look: %+v, %v", all, err)
			}
		},
		opDelete: func(h *driver.Claim) {
			if err := d.Evict(ctx, h.Name, h.ID); err != nil {
				t.Errorf("evict: %v", err)
			}
			if err := holder.Release(ctx, h); !errors.Is(err, driver.ErrGone) {
				t.Errorf("release after evict: %v", err)
			}
		},
	} {
		h := claim(name(t))
		take(t, holder, h)
		var once sync.Once
		m.mu.Lock()
		m.before = func(asked int32) {
			if asked == op {
				once.Do(func() {
					if err := holder.Lighten(ctx, h, 1); err != nil {
						t.Errorf("lighten: %v", err)
					}
				})
			}
		}
		m.mu.Unlock()
		ask(h)
	}
}

package faults

import (
	"strings"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/internal/faults/history"
)

// What is measured is how long after a loss or a death somebody who was waiting had the
// lock, and nothing else.
func TestGaps(t *testing.T) {
	const ms = int64(time.Millisecond)
	first := history.Holding{Proc: "A", Op: 1, Name: "x", Token: 1, Call: 1, Grant: 2, Alive: 9 * ms}
	next := history.Holding{Proc: "B", Op: 1, Name: "x", Token: 2, Call: 5 * ms, Grant: 30 * ms}
	for _, c := range []struct {
		name   string
		change func(h *history.History, a, b *history.Holding)
		want   string
	}{
		{"told 20 ms before", func(_ *history.History, a, _ *history.Holding) { a.Lost = 10 * ms }, "lost 20ms"},
		{"told too late", func(_ *history.History, a, _ *history.Holding) { a.Alive, a.Lost = 34*ms, 35*ms }, "lost -5ms"},
		{"killed", func(_ *history.History, a, _ *history.Holding) { a.Died = 10 * ms }, "death 20ms"},
		{"given back", func(_ *history.History, a, _ *history.Holding) { a.Release, a.Released, a.Freed = 10*ms, 11*ms, true }, ""},
		{"given back, then killed", func(_ *history.History, a, _ *history.Holding) { a.Release, a.Died = 10*ms, 11*ms }, ""},
		{"nobody was waiting", func(_ *history.History, a, b *history.Holding) { a.Lost, b.Call = 10*ms, 20*ms }, ""},
		{"it was stopped", func(_ *history.History, a, _ *history.Holding) { a.Alive, a.Lost = 3*ms, 200*ms }, ""},
		{"it was taken away", func(h *history.History, a, _ *history.Holding) {
			a.Lost = 10 * ms
			h.Faults = []history.Event{{Kind: history.Fault, T: 8 * ms, Name: "x", Destroys: true}}
		}, ""},
		{"another name", func(_ *history.History, a, b *history.Holding) { a.Lost, b.Name = 10*ms, "y" }, ""},
	} {
		a, b := first, next
		h := &history.History{End: 300 * ms, Holdings: []*history.Holding{&a, &b}}
		c.change(h, &a, &b)
		var found []string
		for _, g := range gaps(h) {
			found = append(found, g.Kind+" "+g.Gap.String())
		}
		if got := strings.Join(found, ", "); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestSpread(t *testing.T) {
	var d []time.Duration
	for i := 10; i >= 0; i-- {
		d = append(d, time.Duration(i)*time.Millisecond)
	}
	if got, want := spread(d), (Spread{N: 11, Min: 0, P10: 1, P50: 5, P90: 9, Max: 10}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	page := table(map[string]map[string]Spread{"etcd-1": {"lost": spread(d)}, "redis-1": {"death": spread(d[:1])}, "none": {}})
	lost, death, _ := strings.Cut(page, "from the death")
	if !strings.Contains(lost, "etcd-1") || strings.Contains(lost, "redis-1") || !strings.Contains(death, "redis-1") || strings.Contains(page, "none") {
		t.Errorf("the table is\n%s", page)
	}
}

package faults

import (
	"sync"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/internal/faults/history"
	"github.com/seed80cd6120/locker/internal/servers"
)

// A million acquisitions, of all kinds, are checked one by one: in histories of some ten thousand, which porcupine and the sweep
// have to accept. The short form is a few thousand on one server.
func TestMillion(t *testing.T) {
	servers.Need(t)
	t.Parallel()
	on, want, round := []Backend{Redis1}, 4_000, 4_000
	if Full {
		on, want, round = quick, 1_000_000, 30_000
	}
	var mu sync.Mutex
	checked := map[string]int{}
	count := func(name string) (here, all int) {
		mu.Lock()
		defer mu.Unlock()
		for _, n := range checked {
			all += n
		}
		return checked[name], all
	}
	t.Run("on", func(t *testing.T) {
		for _, b := range on {
			t.Run(b.Name, func(t *testing.T) {
				t.Parallel()
				defer working.enter()()
				s := StartOn(t, b)
				// Who is fast does more, but each has its share.
				enough := func() bool {
					here, all := count(b.Name)
					return here >= want/20 && all >= want
				}
				for start := time.Now(); time.Since(start) < 30*time.Minute && !enough() && !t.Failed(); {
					Examine(t, s, func(x *Exam) {
						x.Check(func(h *history.History) {
							mu.Lock()
							defer mu.Unlock()
							checked[b.Name] += len(h.Holdings)
						})
						crowd(x, round, 30*time.Second)
					})
					_, all := count("")
					t.Logf("%d by now", all)
				}
			})
		}
	})
	if _, n := count(""); n < want && !t.Failed() {
		t.Errorf("%d acquisitions were checked, want %d: %v", n, want, checked)
	} else {
		t.Logf("%d acquisitions were checked: %v", n, checked)
	}
}

// crowd has processes take names as fast as they can, without faults, until there are as many acquisitions as wanted or the time is
// over. Goroutines pass names on within their process, and half of the processes take locks of all kinds.
func crowd(x *Exam, want int, within time.Duration) {
	var names []string
	for range 4 {
		names = append(names, x.Lock())
	}
	x.Access.HandOver = 5 * time.Millisecond
	var procs []*Process
	for i := range 4 {
		p, _ := x.Process("P")
		load := Load{Seed: uint64(i), Names: names, Goroutines: 16, TTL: x.Backend.TTL, Fast: true}
		if i%2 == 0 {
			load.Shares = x.Backend.Offers.shares()
		}
		x.load(p, load)
		procs = append(procs, p)
	}
	for start := time.Now(); time.Since(start) < within && x.acquired(procs) < want; {
		time.Sleep(100 * time.Millisecond)
	}
	x.unload(procs...)
}

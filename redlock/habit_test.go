package redlock

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/eventually"
)

func TestHabits(t *testing.T) {
	var h habits
	passed := make(chan string, 10)
	pass := func(what string) func() { return func() { passed <- what } }
	if h.keeps("x") || h.asking("x") {
		t.Error("kept although nobody has waited")
	}
	h.contended("x")
	h.granted("x", true)
	for i := range proof {
		if h.keeps("x") {
			t.Errorf("kept after %d returns", i)
		}
		h.released("x", false, pass("not kept"))
		h.asking("x")
	}
	h.granted("x", true) // a turn begins
	if !h.keeps("x") {
		t.Error("not kept")
	}
	h.released("x", true, pass("came back"))
	if !h.asking("x") {
		t.Error("came back and is not told that others wait")
	}
	served := 0
	for h.keeps("x") {
		served++
	}
	if served >= helpings {
		t.Errorf("served %d times in a turn", served)
	}
	h.released("x", true, pass("late"))
	if got := <-passed; got != "late" {
		t.Errorf("%q was passed on", got)
	}
	h.granted("x", true)
	h.asking("x")
	if h.keeps("x") {
		t.Error("kept although it did not come back the last time")
	}
	h.released("x", true, pass("closed"))
	h.close()
	if got := <-passed; got != "closed" {
		t.Errorf("%q was passed on", got)
	}
	for i := range 3 * maxHabits {
		h.contended(fmt.Sprint(i))
	}
	if len(h.list) > maxHabits {
		t.Errorf("%d names are remembered", len(h.list))
	}
}

// Processes that come back at once take turns, and each of them, and one that
// does not come back, is served.
func TestTurns(t *testing.T) {
	nodes := five(t)
	const regulars = 4
	var wg sync.WaitGroup
	var mu sync.Mutex
	var served [regulars + 1]int
	var longest time.Duration
	stop := time.Now().Add(1500 * time.Millisecond)
	for i := range regulars + 1 {
		l := open(t, nodes)
		wg.Go(func() {
			for time.Now().Before(stop) {
				began := time.Now()
				lock, err := l.Acquire(within(t, 30*time.Second), t.Name())
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				longest = max(longest, time.Since(began))
				served[i]++
				mu.Unlock()
				if err := lock.Release(context.Background()); err != nil {
					t.Error(err)
				}
				if i == regulars {
					time.Sleep(10 * time.Millisecond)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("served %v, longest wait %v", served, longest)
	for i, n := range served {
		if n == 0 {
			t.Errorf("%d was never served", i)
		}
	}
	if longest > 5*time.Second {
		t.Errorf("somebody waited %v", longest)
	}
}

// A lock that was kept for somebody who does not come back is passed on.
func TestKeptAndNotWanted(t *testing.T) {
	nodes := five(t)
	for _, leave := range []string{"stays away", "closes"} {
		a, b := open(t, nodes), open(t, nodes)
		name := t.Name() + leave
		ctx := within(t, 30*time.Second)
		held, err := a.Acquire(ctx, name)
		must(t, err)
		got := make(chan *locker.Lock, 1)
		go func() {
			lock, err := b.Acquire(ctx, name)
			if err != nil {
				t.Error(err)
			}
			got <- lock
		}()
		eventually.Within(t, 20*time.Second, "somebody waits", func() bool {
			return len(keysOf(t, nodes, name)) >= 2*len(nodes)-2
		})
		// As if a had come back many times.
		d := driverOf(t, a)
		d.habits.contended(name)
		d.habits.list[name].returns = proof
		d.habits.granted(name, true)
		must(t, held.Release(ctx))
		if leave == "closes" {
			must(t, a.Close(ctx))
		}
		begin := time.Now()
		lock := <-got
		if d := time.Since(begin); d > 1500*time.Millisecond { // a glance comes after 2.2 s
			t.Errorf("%s: the next one waited %v", leave, d)
		}
		if lock != nil {
			must(t, lock.Release(ctx))
		}
	}
}

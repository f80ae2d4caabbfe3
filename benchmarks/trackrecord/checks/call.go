package checks

import (
	"context"
	"errors"
	"time"

	"github.com/seed80cd6120/locker/internal/faults"
)

// How calls end when servers do not answer.

func noGhost(x *faults.Exam) {
	x.Access.TTL = long
	a, net := x.Player("A")
	b, _ := x.Player("B")
	x.Warm(a, b)
	name := x.Lock()
	net.FreezeDown()
	ctx, cancel := context.WithTimeout(x.Ctx, 700*time.Millisecond)
	defer cancel()
	if _, err := a.Acquire(ctx, name); err == nil {
		x.Errorf("acquired without a reply")
	}
	net.Heal()
	x.AtOnce(b, name, 5*time.Second)
}

func noGhostCancelled(x *faults.Exam) {
	x.Access.TTL = long
	a, net := x.Player("A")
	b, _ := x.Player("B")
	x.Warm(a, b)
	for _, p := range net.Proxies {
		p.Delay(2*time.Millisecond, 2*time.Millisecond)
	}
	var names []string
	for i := range 100 {
		name := x.Lock()
		ctx, cancel := context.WithTimeout(x.Ctx, time.Duration(i)*150*time.Microsecond)
		h, err := a.Acquire(ctx, name)
		cancel()
		if err == nil {
			_ = h.Release(x.Ctx)
			continue
		}
		names = append(names, name)
	}
	net.Heal()
	time.Sleep(3 * time.Second) // for what is cleaned up in the background
	stuck := 0
	for _, name := range names {
		if !granted(x, b, name) {
			stuck++
		}
	}
	if stuck > 0 {
		x.Errorf("%d of %d names whose acquisition was cancelled are still taken three seconds later", stuck, len(names))
	}
}

func lostReply(x *faults.Exam) {
	x.Access.TTL = long
	a, net := x.Player("A")
	b, _ := x.Player("B")
	x.Warm(a, b)
	name := x.Lock()
	net.Proxies[0].SwallowReply(nil, 0)
	h, err := a.Acquire(x.Within(5*time.Second), name)
	if err == nil {
		x.Released(h)
	}
	start := time.Now()
	h, err2 := b.Acquire(x.Within(7*time.Second), name)
	if err2 != nil {
		x.Errorf("the acquisition ended with %v, and the name is still taken %v later", err, time.Since(start).Round(time.Second))
		return
	}
	_ = h.Release(x.Ctx)
}

func promptWaiting(x *faults.Exam) {
	promptWait(x, time.Second, (*faults.Network).Freeze)
}

func promptCutOffWaiting(x *faults.Exam) {
	promptWait(x, 2*time.Second, func(net *faults.Network) { time.AfterFunc(time.Second, net.Freeze) })
}

// promptWait waits for a lock that is held, over a network that is cut off.
func promptWait(x *faults.Exam, within time.Duration, cut func(net *faults.Network)) {
	x.Access.TTL = long
	a, net := x.Player("A")
	b, _ := x.Player("B")
	x.Warm(a)
	name := x.Lock()
	h := x.Acquired(b, name, 10*time.Second)
	cut(net)
	prompt(x, "the wait", within, func(ctx context.Context) {
		if got, err := a.Acquire(ctx, name); err == nil {
			_ = got.Release(x.Ctx)
		}
	})
	net.Heal()
	_ = h.Release(x.Ctx)
}

func promptRelease(x *faults.Exam) {
	x.Access.TTL = long
	a, net := x.Player("A")
	h := x.Acquired(a, x.Lock(), 10*time.Second)
	net.Freeze()
	prompt(x, "the release", time.Second, func(ctx context.Context) { _ = h.Lock.Release(ctx) })
	net.Heal()
}

func prompt(x *faults.Exam, what string, within time.Duration, call func(ctx context.Context)) {
	ctx, cancel := context.WithTimeout(x.Ctx, within)
	defer cancel()
	start := time.Now()
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		call(ctx)
	}()
	select {
	case <-returned:
		if took := time.Since(start); took > within+time.Second {
			x.Errorf("%s took %v with a ctx of %v", what, took.Round(100*time.Millisecond), within)
		}
	case <-time.After(within + 9*time.Second):
		x.Errorf("%s has not returned after %v with a ctx of %v", what, within+9*time.Second, within)
	}
}

func ctxError(x *faults.Exam) {
	x.Access.TTL = long
	a, _ := x.Player("A")
	b, _ := x.Player("B")
	name := x.Lock()
	h := x.Acquired(b, name, 10*time.Second)
	ctx, cancel := context.WithTimeout(x.Ctx, 500*time.Millisecond)
	defer cancel()
	if _, err := a.Acquire(ctx, name); !errors.Is(err, context.DeadlineExceeded) {
		x.Errorf("the error is %v", err)
	}
	_ = h.Release(x.Ctx)
}

func blackHole(x *faults.Exam) {
	x.Access.TTL = long
	a, net := x.Player("A")
	x.Warm(a)
	p := net.Proxies[0]
	p.BlackHole()
	p.Freeze()
	var worst time.Duration
	for range 5 {
		start := time.Now()
		h := x.Acquired(a, x.Lock(), 20*time.Second)
		_ = h.Release(x.Within(20 * time.Second))
		worst = max(worst, time.Since(start))
	}
	if worst > time.Second {
		x.Errorf("acquire and release took %v", worst.Round(100*time.Millisecond))
	}
	net.Heal()
}

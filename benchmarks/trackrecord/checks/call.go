package checks

import (
	"context"
	"errors"
	"time"

	"github.com/seed80cd6120/locker/internal/faults"
)

// How calls end when servers do not answer.

func noGhost(x *exam) {
	x.Warm(x.a, x.b)
	x.net.FreezeDown()
	if _, err := x.a.Acquire(x.Within(700*time.Millisecond), x.name); err == nil {
		x.Errorf("acquired without a reply")
	}
	x.net.Heal()
	x.AtOnce(x.b, x.name, 5*time.Second)
}

func noGhostCancelled(x *exam) {
	x.Warm(x.a, x.b)
	for _, p := range x.net.Set {
		p.Delay(2*time.Millisecond, 2*time.Millisecond)
	}
	var names []string
	for i := range 100 {
		name := x.Lock()
		ctx, cancel := context.WithTimeout(x.Ctx, time.Duration(i)*150*time.Microsecond)
		h, err := x.a.Acquire(ctx, name)
		cancel()
		if err == nil {
			x.giveBack(h)
		} else {
			names = append(names, name)
		}
	}
	x.net.Heal()
	time.Sleep(3 * time.Second) // for what is cleaned up in the background
	stuck := 0
	for _, name := range names {
		if !x.free(x.b, name) {
			stuck++
		}
	}
	if stuck > 0 {
		x.Errorf("%d of %d names whose acquisition was cancelled are still taken three seconds later", stuck, len(names))
	}
}

func lostReply(x *exam) {
	x.Warm(x.a, x.b)
	x.net.Set[0].SwallowReply(nil, 0)
	h, err := x.a.Acquire(x.Within(5*time.Second), x.name)
	if err == nil {
		x.Released(h)
	}
	start := time.Now()
	next, err2 := x.b.Acquire(x.Within(7*time.Second), x.name)
	if err2 != nil {
		x.Errorf("the acquisition ended with %v, and the name is still taken %v later", err, time.Since(start).Round(time.Second))
		return
	}
	x.giveBack(next)
}

func promptWaiting(x *exam) {
	promptWait(x, time.Second, (*faults.Network).Freeze)
}

func promptCutOffWaiting(x *exam) {
	promptWait(x, 2*time.Second, func(net *faults.Network) { time.AfterFunc(time.Second, net.Freeze) })
}

// promptWait waits for a lock that is held, over a network that is cut off.
func promptWait(x *exam, within time.Duration, cut func(net *faults.Network)) {
	x.Warm(x.a)
	h := x.held(x.b)
	cut(x.net)
	x.returns("the wait", within, func(ctx context.Context) {
		if got, err := x.a.Acquire(ctx, x.name); err == nil {
			x.giveBack(got)
		}
	})
	x.net.Heal()
	x.giveBack(h)
}

func promptRelease(x *exam) {
	h := x.held(x.a)
	x.net.Freeze()
	x.returns("the release", time.Second, func(ctx context.Context) { _ = h.Lock.Release(ctx) })
	x.net.Heal()
}

func ctxError(x *exam) {
	h := x.held(x.b)
	if _, err := x.a.Acquire(x.Within(500*time.Millisecond), x.name); !errors.Is(err, context.DeadlineExceeded) {
		x.Errorf("the error is %v", err)
	}
	x.giveBack(h)
}

func blackHole(x *exam) {
	x.Warm(x.a)
	p := x.net.Set[0]
	p.BlackHole()
	p.Freeze()
	var worst time.Duration
	for range 5 {
		start := time.Now()
		h := x.Acquired(x.a, x.Lock(), 20*time.Second)
		_ = h.Release(x.Within(20 * time.Second))
		worst = max(worst, time.Since(start))
	}
	if worst > time.Second {
		x.Errorf("acquire and release took %v", worst.Round(100*time.Millisecond))
	}
	x.net.Heal()
}

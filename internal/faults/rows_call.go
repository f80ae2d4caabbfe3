package faults

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/conformance"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/proxy"
)

// What a caller can do.
var callRows = []Row{
	{Number: 25, Shows: []int{5}, Name: "cancelled-anywhere", Quick: true, Run: cancelledAnywhere,
		See: "nothing stays, nobody is granted the lock later"},
	{Number: 36, Shows: []int{11}, Name: "prefixes", Run: prefixes,
		See: "names that begin alike are independent"},
	{Number: 38, Shows: []int{13}, Name: "bad-arguments", Run: badArguments,
		See: "refused before anything is sent"},
	{Number: 39, Shows: []int{7, 15}, Name: "out-of-order", Quick: true, Run: outOfOrder,
		See: "the promised errors, no leak"},
	{Number: 40, Shows: []int{1, 10}, Name: "twice-in-one-process", Quick: true, Run: twice,
		See: "the second acquisition of one Locker waits"},
	{Number: 42, Shows: []int{3}, Name: "machine-suspended", Run: suspended,
		See: "the deadline counts the time asleep"},
}

// A ctx is cancelled at every point of an acquisition, of a name that is free or taken.
func cancelledAnywhere(x *Exam) {
	x.Access.TTL = long
	name, a, b := x.pair()
	x.Warm(a, b)
	a.net.Each(func(p *proxy.Proxy) { p.Delay(2*time.Millisecond, 2*time.Millisecond) })
	got := 0
	for i := range 200 {
		var hb *Holding
		if i%2 == 1 {
			hb = x.Acquired(b, name, 10*time.Second)
		}
		ctx, cancel := context.WithCancel(x.Ctx)
		timer := time.AfterFunc(time.Duration(rand.Int64N(int64(15*time.Millisecond))), cancel)
		h, err := a.Acquire(ctx, name)
		switch {
		case err == nil:
			got++
			x.Released(h)
		case !errors.Is(err, context.Canceled):
			x.Errorf("acquire: %v, want that it was cancelled", err)
		}
		timer.Stop()
		cancel()
		if hb != nil {
			x.Released(hb)
		}
	}
	x.Logf("%d of 200 came through", got)
	a.net.Heal()
	start := time.Now()
	x.Until("nobody waits or holds any more", 10*time.Second, func() bool {
		if n, err := x.waiting(name); err != nil || n > 0 {
			return false
		}
		h, err := b.Try(x.Within(5*time.Second), name)
		if err != nil {
			return false
		}
		x.Released(h)
		return true
	})
	x.Logf("free after %v", time.Since(start))
}

// Names that begin with each other are held at once.
func prefixes(x *Exam) {
	base, a, b := x.pair()
	var held []*Holding
	for i, name := range []string{base, base + "/", base + "/b", base + "b", base + " ", " " + base, strings.ToUpper(base),
		base + "\x00", base + "\x00b", base + "//b", base + "/../" + base, "{" + base + "}b", base + "%2F", base + "\xff"} {
		p := a
		if i%2 == 1 {
			p = b
		}
		h, err := p.Acquire(x.Within(time.Minute), x.use(name))
		if err != nil {
			x.Errorf("%q is not free while others that look like it are held: %v", name, err)
			continue
		}
		held = append(held, h)
	}
	for _, h := range held {
		x.Released(h)
	}
}

// Arguments that are refused.
func badArguments(x *Exam) {
	a, _ := x.Player("A")
	over, cancel := context.WithCancel(x.Ctx)
	cancel()
	var before []int64
	for _, s := range x.All {
		n, err := s.Requests(x.Within(time.Minute))
		x.Must(err)
		before = append(before, n)
	}
	for _, c := range []struct {
		what string
		ctx  context.Context
		name string
		opts []locker.AcquireOption
		want error
	}{
		{"an empty name", x.Ctx, "", nil, locker.ErrInvalidName},
		{"a name of 1,025 bytes", x.Ctx, strings.Repeat("x", 1025), nil, locker.ErrInvalidName},
		{"a ctx that is over", over, "x", nil, context.Canceled},
		{"no lease", x.Ctx, "x", []locker.AcquireOption{locker.WithLease(0)}, locker.ErrInvalidOption},
		{"a nil option", x.Ctx, "x", []locker.AcquireOption{nil}, locker.ErrInvalidOption},
	} {
		for op, take := range ways(a.client) {
			if _, err := take(c.ctx, c.name, c.opts...); !errors.Is(err, c.want) {
				x.Errorf("%s with %s: %v, want %v", op, c.what, err, c.want)
			}
		}
	}
	if _, err := Open(x.Ctx, Access{Kind: x.Access.Kind, Addrs: x.Access.Addrs, Master: x.Access.Master, TTL: -time.Second}); !errors.Is(err, locker.ErrInvalidOption) {
		x.Errorf("a TTL below zero: %v, want %v", err, locker.ErrInvalidOption)
	}
	for i, s := range x.All {
		n, err := s.Requests(x.Within(time.Minute))
		x.Must(err)
		// Sessions and the servers themselves may have things to say to each other.
		if sent := n - before[i]; sent > 8 {
			x.Errorf("%d requests were sent to %s", sent, s.Addr())
		}
	}
}

// ways are the ways to take a lock.
func ways(c conformance.Client) map[string]way {
	return map[string]way{"acquire": c.Acquire, "try": c.TryAcquire}
}

// Calls in orders that nobody would choose.
func outOfOrder(x *Exam) {
	name := x.Lock()
	a, _ := x.Player("A")
	h := x.Acquired(a, name, 10*time.Second)
	var wg sync.WaitGroup
	var failed atomic.Int64
	for range 8 {
		wg.Go(func() {
			if h.Lock.Release(x.Ctx) != nil {
				failed.Add(1)
			}
		})
	}
	x.Released(h)
	wg.Wait()
	if n := failed.Load(); n > 0 {
		x.Errorf("%d of 8 releases at once failed", n)
	}
	h = x.Acquired(a, name, 10*time.Second)
	x.wasClosed(time.Now(), a.client.Close(x.Within(10*time.Second)))
	if err := h.Look(); err == nil {
		x.Errorf("the context outlived Close")
	}
	if err := h.Lock.Release(x.Within(5 * time.Second)); err != nil {
		x.Errorf("release after Close: %v", err)
	}
	if _, err := a.client.Acquire(x.Within(5*time.Second), name); !errors.Is(err, locker.ErrClosed) {
		x.Errorf("acquire after Close: %v, want ErrClosed", err)
	}
	b, _ := x.Player("B")
	x.Released(x.Acquired(b, name, 5*time.Second))
}

// One Locker takes a name that it holds.
func twice(x *Exam) {
	x.Access.TTL = long
	name := x.Lock()
	a, _ := x.Player("A")
	ha := x.Acquired(a, name, 10*time.Second)
	if h, err := a.Try(x.Within(time.Minute), name); !errors.Is(err, locker.ErrNotAcquired) {
		if err == nil {
			_ = h.Release(x.Ctx)
			x.StillHolds(ha, "who has the lock that is tried")
		}
		x.Errorf("try: %v, want ErrNotAcquired", err)
	}
	x.mustEndByCtx(a, name, 300*time.Millisecond)
	got := x.asks(a, name, time.Minute)
	x.stillWaits(got, ha, 300*time.Millisecond)
	x.Released(ha)
	x.Released(x.Get(got))
}

// asleep is a clock that can be moved forward, as that of a machine is which sleeps.
type asleep struct {
	driver.Clock
	by atomic.Int64
}

func (c *asleep) Now() driver.Instant { return c.Clock.Now().Add(time.Duration(c.by.Load())) }

// The machine of the holder sleeps for longer than the lock lasts.
func suspended(x *Exam) {
	name := x.Lock()
	clock := &asleep{Clock: locker.SystemClock()}
	x.Access.clock = clock
	a, _ := x.Player("A")
	x.Access.clock = nil
	b, _ := x.Player("B")
	ha := x.Acquired(a, name, 10*time.Second)
	wait := x.Waits(b, name, 30*time.Second)
	clock.by.Add(int64(x.Backend.TTL))
	if err := context.Cause(ha.Lock.Context()); !errors.Is(err, locker.ErrLost) {
		x.Errorf("the first look after the sleep said %v, want ErrLost", err)
	}
	x.Released(x.Get(wait))
}

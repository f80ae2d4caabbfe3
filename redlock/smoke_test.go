package redlock

import (
	"testing"
	"time"
)

func TestSmoke(t *testing.T) {
	b := newDriver(t, five(t))
	ctx := within(t, 20*time.Second)
	for range 3 {
		c := newDriverClaim("x", 10*time.Second, false)
		g, err := b.Acquire(ctx, c)
		t.Log(g, err)
		must(t, err)
		d := newDriverClaim("x", 10*time.Second, true)
		got := make(chan error)
		go func() { g, err := b.Acquire(ctx, d); t.Log(g, err); got <- err }()
		time.Sleep(50 * time.Millisecond)
		t.Log(b.Look(ctx, "x"))
		start := time.Now()
		must(t, b.Release(ctx, c))
		must(t, <-got)
		t.Log(time.Since(start))
		must(t, b.Release(ctx, d))
	}
}

package locker

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// instant is a driver that does nothing but take its time.
type instant struct {
	traits driver.Traits
	clock  driver.Clock
	takes  time.Duration
	token  atomic.Int64
}

func (d *instant) Traits() driver.Traits { return d.traits }

func (d *instant) Acquire(_ context.Context, c *driver.Claim) (driver.Grant, error) {
	wait(d.takes)
	spare := int64(c.Spare)
	token := d.token.Add(1 + spare)
	return driver.Grant{Token: token - spare, Spare: spare, Until: d.clock.Now().Add(c.TTL)}, nil
}

func (d *instant) Renew(context.Context, []*driver.Claim, func(*driver.Claim, driver.Instant, error)) {
}

func (d *instant) Release(context.Context, *driver.Claim) error { wait(d.takes); return nil }
func (d *instant) Abandon(context.Context, *driver.Claim) error { return nil }
func (d *instant) Close(context.Context) error                  { return nil }

func openBench(b *testing.B, traits driver.Traits, takes time.Duration, opts ...Option) Locker {
	b.Helper()
	traits.Backend = "instant"
	cfg, err := NewConfig[struct{}]("instant", nil, opts...)
	if err != nil {
		b.Fatal(err)
	}
	l, err := New(&instant{traits: traits, clock: cfg.Clock, takes: takes}, cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close(context.Background()) })
	return l
}

func wait(d time.Duration) {
	if d > 0 {
		time.Sleep(d)
	}
}

func pair(b *testing.B, ctx context.Context, l Locker, opts ...AcquireOption) {
	lock, err := l.Acquire(ctx, "x", opts...)
	if err == nil {
		err = lock.Release(ctx)
	}
	if err != nil {
		b.Error(err)
	}
}

// What the core itself costs: a driver that answers at once, called on the
// caller's goroutine and aside, without and with an observer that does nothing.
func BenchmarkCore(b *testing.B) {
	for name, run := range map[string]struct {
		prompt bool
		opts   []Option
	}{
		"prompt":   {true, nil},
		"aside":    {false, nil},
		"observed": {true, []Option{WithObserver(&Observer{})}},
	} {
		b.Run(name, func(b *testing.B) {
			l := openBench(b, driver.Traits{Prompt: run.prompt}, 0, run.opts...)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			b.ReportAllocs()
			for b.Loop() {
				pair(b, ctx, l)
			}
		})
	}
}

// Sixteen goroutines of one Locker want one name; a request takes a millisecond.
func BenchmarkHandOver(b *testing.B) {
	for _, window := range []time.Duration{0, 5 * time.Millisecond} {
		b.Run(window.String(), func(b *testing.B) {
			l := openBench(b, driver.Traits{Prompt: true, Fenced: true}, time.Millisecond, WithHandOver(window))
			var left atomic.Int64
			left.Store(int64(b.N))
			var wg sync.WaitGroup
			b.ReportAllocs()
			for range 16 {
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						pair(b, b.Context(), l)
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "locks/s")
		})
	}
}

package locker

import (
	"context"
	"testing"

	"github.com/seed80cd6120/locker/driver"
)

// What the core itself costs: a driver that answers at once, called on the
// caller's goroutine and aside.
func BenchmarkCore(b *testing.B) {
	for name, prompt := range map[string]bool{"prompt": true, "aside": false} {
		b.Run(name, func(b *testing.B) {
			cfg, err := NewConfig[struct{}]("script", nil)
			if err != nil {
				b.Fatal(err)
			}
			d := &script{traits: driver.Traits{Prompt: prompt}, acquire: grant(cfg.Clock), silent: true}
			l, err := New(d, cfg)
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			b.ReportAllocs()
			for b.Loop() {
				lock, err := l.Acquire(ctx, "x")
				if err != nil {
					b.Fatal(err)
				}
				if err := lock.Release(ctx); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

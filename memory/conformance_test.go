package memory_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/conformance"
	"github.com/seed80cd6120/locker/memory"
)

// newHarness offers every hook that a store within one process can have: there are
// no other processes, and nothing to be misconfigured.
func newHarness(testing.TB) *conformance.Harness {
	s := memory.NewStore()
	return &conformance.Harness{
		Open: func(_ context.Context, opts ...locker.Option) (locker.Locker, error) { return s.Locker(opts...) },
		OpenLink: func(_ context.Context, opts ...locker.Option) (locker.Locker, conformance.Link, error) {
			l, link, err := s.Remote(opts...)
			return l, conformance.Link{
				Freeze: link.Freeze,
				Mute:   link.Mute,
				Cut:    func() { link.Cut(nil) },
				Heal:   link.Heal,
			}, err
		},
		Destroy: func(_ context.Context, name string) error {
			if !s.Destroy(name) {
				return fmt.Errorf("%q is not held", name)
			}
			return nil
		},
		Leftovers: func(_ context.Context, text string) (left []string, err error) {
			for _, name := range s.Names() {
				if strings.Contains(name, text) {
					left = append(left, name)
				}
			}
			return left, nil
		},
		Requests: func(context.Context) (int64, error) { return s.Requests(), nil },
		Stop:     func(context.Context) error { s.Fail(nil); return nil },
		Start:    func(context.Context) error { s.Heal(); return nil },
	}
}

func TestConformance(t *testing.T) {
	conformance.Run(t, conformance.Backend{
		New: newHarness, Fair: true, Fenced: true, Shared: true, Permits: true, Downgrade: true, Inspect: true, Evict: true, AtLeast: true,
		Durable: true, Private: true,
		TTL: 500 * time.Millisecond,
	})
}

func BenchmarkConformance(b *testing.B) { conformance.Benchmark(b, newHarness) }

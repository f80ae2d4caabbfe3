package conformance

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/memory"
)

// memoryHarness offers every hook that a store within this process can have.
func memoryHarness(testing.TB) *Harness {
	s := memory.NewStore()
	return &Harness{
		Open: func(_ context.Context, opts ...locker.Option) (locker.Locker, error) { return s.Locker(opts...) },
		OpenLink: func(_ context.Context, opts ...locker.Option) (locker.Locker, Link, error) {
			l, link, err := s.Remote(opts...)
			return l, Link{
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
			for _, h := range s.Holders() {
				if strings.Contains(h.Name, text) {
					left = append(left, h.Name)
				}
			}
			if len(left) == 0 && s.Len() > 0 {
				left = append(left, "a queue")
			}
			return left, nil
		},
		Requests: func(context.Context) (int64, error) { return s.Requests(), nil },
		Stop:     func(context.Context) error { s.Fail(nil); return nil },
		Start:    func(context.Context) error { s.Heal(); return nil },
	}
}

func TestMemory(t *testing.T) {
	Run(t, Backend{
		New: memoryHarness, Fair: true, Fenced: true, Shared: true, Durable: true, Private: true,
		TTL: 500 * time.Millisecond,
	})
}

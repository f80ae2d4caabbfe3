package driver_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/conformance"
)

// What the example teaches is right: it is held to the suite like every other backend.
func TestConformance(t *testing.T) {
	conformance.Run(t, conformance.Backend{
		New: newHarness, Fair: true, Fenced: true, Shared: true, Permits: true,
		Private: true, TTL: 500 * time.Millisecond,
	})
}

// newHarness offers the hooks that cost a few lines each.
func newHarness(testing.TB) *conformance.Harness {
	s := &server{queues: make(map[string][]*entry)}
	return &conformance.Harness{
		Open: func(_ context.Context, opts ...locker.Option) (locker.Locker, error) { return New(s, opts...) },
		Destroy: func(_ context.Context, name string) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			holders := slices.DeleteFunc(slices.Clone(s.queues[name]), func(e *entry) bool { return e.token == 0 })
			for _, e := range holders {
				s.remove(name, e)
			}
			if len(holders) == 0 {
				return fmt.Errorf("%q is not held", name)
			}
			return nil
		},
		Leftovers: func(_ context.Context, text string) (left []string, err error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			for name := range s.queues {
				if strings.Contains(name, text) {
					left = append(left, name)
				}
			}
			return left, nil
		},
	}
}

package conformance_test

import (
	"context"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/conformance"
	"github.com/seed80cd6120/locker/memory"
)

// Example holds the memory backend to the promises. In a test file of one's own
// the inner function is TestConformance(t *testing.T).
func Example() {
	_ = func(t *testing.T) {
		conformance.Run(t, conformance.Backend{
			New: func(t testing.TB) *conformance.Harness {
				store := memory.NewStore()
				return &conformance.Harness{
					// A further client of the same store, every time.
					Open: func(ctx context.Context, opts ...locker.Option) (locker.Locker, error) {
						return store.Locker(opts...)
					},
					// Hooks are optional: without them some cases are skipped.
					Requests: func(ctx context.Context) (int64, error) { return store.Requests(), nil },
				}
			},
			Fair:      true,
			Fenced:    true,
			Shared:    true,
			Permits:   true,
			Downgrade: true,
			Inspect:   true,
			Evict:     true,
			AtLeast:   true,
			Private:   true,
			TTL:       500 * time.Millisecond,
		})
	}
}

package conformance

import (
	"context"
	"testing"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/memory"
)

// memoryHarness has most hooks, and costs nothing. The memory backend itself is held
// to the suite in its own folder.
func memoryHarness(testing.TB) *Harness {
	s := memory.NewStore()
	return &Harness{
		Open:     func(_ context.Context, opts ...locker.Option) (locker.Locker, error) { return s.Locker(opts...) },
		Destroy:  func(_ context.Context, name string) error { s.Destroy(name); return nil },
		Requests: func(context.Context) (int64, error) { return s.Requests(), nil },
	}
}

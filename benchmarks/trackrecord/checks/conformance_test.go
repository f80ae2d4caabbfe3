package checks

import (
	"context"
	"os"
	"testing"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/conformance"
	"github.com/seed80cd6120/locker/faults"
	"github.com/seed80cd6120/locker/internal/servers"
)

// TestConformance holds the other libraries to the suite that this project's backends pass.
// It asks for more than any of them offers: the table leaves out the promises that a
// library does not make.
func TestConformance(t *testing.T) {
	servers.Need(t)
	if os.Getenv("LOCKER_TRACK") == "" {
		t.Skip("takes minutes; run with LOCKER_TRACK=1, as ./trackrecord does")
	}
	for _, l := range Libraries() {
		if l.Ours {
			continue // their own packages do this
		}
		t.Run(l.Name, func(t *testing.T) {
			t.Parallel()
			s := faults.StartOn(t, l.Backend)
			open := func(ctx context.Context, opts ...locker.Option) (conformance.Client, error) {
				cfg, err := locker.NewConfig(opts...)
				if err != nil {
					return nil, err
				}
				access := s.Access
				access.TTL = cfg.TTL
				return faults.Open(ctx, access)
			}
			conformance.Run(t, conformance.Backend{
				TTL: short,
				New: func(testing.TB) *conformance.Harness {
					h := &conformance.Harness{OpenClient: open, Destroy: s.Destroy}
					if len(s.All) == 1 {
						h.Requests = s.All[0].Requests
					}
					return h
				},
			})
		})
	}
}

package checks

import (
	"os"
	"testing"

	"github.com/seed80cd6120/locker/faults"
	"github.com/seed80cd6120/locker/internal/servers"
)

func TestMain(m *testing.M) {
	Libraries() // makes them known, in children too
	faults.Child()
	code := m.Run()
	_ = servers.StopAll()
	os.Exit(code)
}

// TestTrack runs every check on every library that claims what it asks for. The
// libraries of others fail where docs/track-record.md says that they do; this project's
// must not.
func TestTrack(t *testing.T) {
	servers.Need(t)
	if os.Getenv("LOCKER_TRACK") == "" {
		t.Skip("takes minutes; run with LOCKER_TRACK=1, as ./trackrecord does")
	}
	for _, l := range Libraries() {
		t.Run(l.Name, func(t *testing.T) {
			t.Parallel()
			for _, c := range All {
				if _, lacks := l.Lacks[c.Claim]; lacks {
					continue
				}
				t.Run(c.ID, func(t *testing.T) {
					faults.Examine(t, faults.StartOn(t, l.Backend), c.Run)
				})
			}
		})
	}
}

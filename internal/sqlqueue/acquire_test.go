package sqlqueue

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/locktest"
)

// silent is a server that does not answer. Between two sendings of a request it becomes known that its time is earlier.
type silent struct {
	Server
	q      *Queue
	latest int64
}

func (s *silent) Acquire(_ context.Context, _ *Claim, _ int64, stamp func() (driver.Instant, int64)) (Answer, bool, error) {
	_, s.latest = stamp()
	s.q.time.Learn(s.q.time.Now()-time.Hour.Microseconds(), s.q.clock.Now())
	stamp()
	return Answer{}, true, errors.New("no answer")
}

// A claim may be granted until the time of whichever sending of a request was meant for longest.
func TestLateUntil(t *testing.T) {
	s := new(silent)
	s.q = New(s, locker.SystemClock(), 0)
	c := &Claim{Claim: locktest.Claim("x", time.Minute, false)}
	if _, err := s.q.ask(t.Context(), c, 0); err == nil || c.LateUntil != s.latest {
		t.Errorf("until %d, want %d: %v", c.LateUntil, s.latest, err)
	}
}

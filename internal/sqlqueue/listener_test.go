package sqlqueue

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/locktest"
)

// unheard is a server that cannot be listened to. It grants the name when its waiter has polled some times.
type unheard struct {
	Server
	listen func(context.Context) error
	polls  atomic.Int32
}

func (s *unheard) Acquire(_ context.Context, _ *Claim, _ int64, stamp func() (driver.Instant, int64)) (Answer, bool, error) {
	a := Answer{State: "waits", FirstEnd: time.Hour}
	if s.polls.Load() >= 3 {
		a.State = "granted"
	}
	a.Sent, _ = stamp()
	return a, false, nil
}

func (s *unheard) Poll(_ context.Context, l *Listener) {
	s.polls.Add(1)
	for id := range l.Waiting() {
		l.Tell(id, Event{})
	}
}

func (s *unheard) Listen(ctx context.Context, _ *Listener) error { return s.listen(ctx) }

func (*unheard) Sweep(context.Context) {}

func (*unheard) Transient(error) bool { return true }

// Waiters poll for as long as nobody listens.
func TestPollingUntilConnected(t *testing.T) {
	for name, listen := range map[string]func(context.Context) error{
		"connecting hangs": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"connecting fails": func(context.Context) error { return errors.New("refused") },
		"it cannot be":     func(context.Context) error { return ErrCannotListen },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := New(&unheard{listen: listen}, locker.SystemClock(), 0)
				if _, err := q.Acquire(locktest.Within(t, 4*PollEvery), locktest.Claim("x", time.Minute, true)); err != nil {
					t.Error(err)
				}
				if err := q.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

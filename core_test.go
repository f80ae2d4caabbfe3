package locker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/seed80cd6120/locker/driver"
)

// script is a driver whose every answer a test decides. It stands for no
// backend: it makes the timing of the core visible.
type script struct {
	traits  driver.Traits
	acquire func(ctx context.Context, c *driver.Claim) (driver.Grant, error)
	renew   func(ctx context.Context, claims []*driver.Claim, report func(*driver.Claim, driver.Instant, error))
	release func(ctx context.Context, c *driver.Claim) error
	abandon func(ctx context.Context, c *driver.Claim) error
	close   func(ctx context.Context) error

	mu     sync.Mutex
	calls  []string // "acquire x", "renew x y", ...
	silent bool     // keeps no record of the calls
}

func (s *script) note(call string) {
	if s.silent {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, call)
}

func (s *script) count(call string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, c := range s.calls {
		if c == call {
			n++
		}
	}
	return n
}

func (s *script) Traits() driver.Traits {
	t := s.traits
	if t.Backend == "" {
		t.Backend = "script"
	}
	return t
}

func (s *script) Acquire(ctx context.Context, c *driver.Claim) (driver.Grant, error) {
	s.note("acquire " + c.Name)
	return s.acquire(ctx, c)
}

func (s *script) Renew(ctx context.Context, claims []*driver.Claim, report func(*driver.Claim, driver.Instant, error)) {
	s.note("renew")
	if s.renew != nil {
		s.renew(ctx, claims, report)
	}
}

func (s *script) Release(ctx context.Context, c *driver.Claim) error {
	s.note("release " + c.Name)
	if s.release != nil {
		return s.release(ctx, c)
	}
	return nil
}

func (s *script) Abandon(ctx context.Context, c *driver.Claim) error {
	s.note("abandon " + c.Name)
	if s.abandon != nil {
		return s.abandon(ctx, c)
	}
	return nil
}

func (s *script) Close(ctx context.Context) error {
	s.note("close")
	if s.close != nil {
		return s.close(ctx)
	}
	return nil
}

// grant answers every Acquire at once with the next token.
func grant(clock driver.Clock) func(context.Context, *driver.Claim) (driver.Grant, error) {
	var mu sync.Mutex
	var token int64
	return func(_ context.Context, c *driver.Claim) (driver.Grant, error) {
		mu.Lock()
		defer mu.Unlock()
		token++
		return driver.Grant{Token: token, Until: clock.Now().Add(c.TTL)}, nil
	}
}

var errBroken = errors.New("broken")

func open(t *testing.T, s *script, opts ...Option) Locker {
	t.Helper()
	cfg, err := NewConfig[struct{}]("script", nil, append([]Option{WithClock(TimeClock{})}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	if s.acquire == nil {
		s.acquire = grant(cfg.Clock)
	}
	l, err := New(s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func closeAll(t *testing.T, l Locker) {
	t.Helper()
	if err := l.Close(context.Background()); err != nil {
		t.Error("Close:", err)
	}
}

// acquireMany acquires n names.
func acquireMany(t *testing.T, l Locker, n int) (locks []*Lock) {
	t.Helper()
	for i := range n {
		locks = append(locks, acquire(t, l, fmt.Sprint(i)))
	}
	return locks
}

func acquire(t *testing.T, l Locker, name string, opts ...AcquireOption) *Lock {
	t.Helper()
	lock, err := l.Acquire(context.Background(), name, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

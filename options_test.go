package locker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Bad input is refused before anything is sent.
func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{}
		l := open(t, s)
		over, cancel := context.WithCancel(context.Background())
		cancel()
		for name, c := range map[string]struct {
			ctx  context.Context
			name string
			opt  AcquireOption
			want error
		}{
			"empty name":   {context.Background(), "", nil, ErrInvalidName},
			"long name":    {context.Background(), string(make([]byte, MaxName+1)), nil, ErrInvalidName},
			"short lease":  {context.Background(), "x", WithLease(0), ErrInvalidOption},
			"long lease":   {context.Background(), "x", WithLease(MaxTTL + 1), ErrInvalidOption},
			"nil option":   {context.Background(), "x", AcquireOption(nil), ErrInvalidOption},
			"shared":       {context.Background(), "x", Shared(), ErrUnsupported},
			"permits":      {context.Background(), "x", Permits(1, 2), ErrUnsupported},
			"at least":     {context.Background(), "x", AtLeast(time.Second), ErrUnsupported},
			"no permit":    {context.Background(), "x", Permits(0, 2), ErrInvalidOption},
			"too many":     {context.Background(), "x", Permits(3, 2), ErrInvalidOption},
			"more than is": {context.Background(), "x", Permits(1, MaxPermits+1), ErrInvalidOption},
			"two kinds":    {context.Background(), "x", both(Shared(), Permits(1, 2)), ErrInvalidOption},
			"two sizes":    {context.Background(), "x", both(Permits(1, 3), Permits(1, 2)), ErrInvalidOption},
			"long owner":   {context.Background(), "x", As(string(make([]byte, MaxOwner+1))), ErrInvalidOption},
			"never":        {context.Background(), "x", AtLeast(0), ErrInvalidOption},
			"for ever":     {context.Background(), "x", AtLeast(MaxTTL + 1), ErrInvalidOption},
			"longer than its lease": {
				context.Background(), "x", both(WithLease(time.Second), AtLeast(2*time.Second)), ErrInvalidOption,
			},
			"finished ctx": {over, "x", nil, context.Canceled},
		} {
			var opts []AcquireOption
			if c.opt != nil || name == "nil option" {
				opts = append(opts, c.opt)
			}
			if _, err := l.Acquire(c.ctx, c.name, opts...); !errors.Is(err, c.want) {
				t.Errorf("%s: Acquire: %v", name, err)
			}
			if _, err := l.TryAcquire(c.ctx, c.name, opts...); !errors.Is(err, c.want) {
				t.Errorf("%s: TryAcquire: %v", name, err)
			}
		}
		if len(s.calls) != 0 {
			t.Errorf("sent: %v", s.calls)
		}
		closeAll(t, l)
	})
	for name, opt := range map[string]Option{
		"zero TTL": WithTTL(0), "negative TTL": WithTTL(-1), "long TTL": WithTTL(MaxTTL + 1),
		"long owner": WithOwner(string(make([]byte, MaxOwner+1))), "nil": nil, "nil observer": WithObserver(nil), "negative hand-over": WithHandOver(-1), "nil logger": WithLogger(nil), "nil clock": WithClock(nil),
	} {
		if _, err := NewConfig[struct{}]("script", nil, opt); !errors.Is(err, ErrInvalidOption) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// both is two options in one.
func both(one, other AcquireOption) AcquireOption {
	return func(a *acquisition) error { return errors.Join(one(a), other(a)) }
}

// Without options a lock outlives its holder by 15 seconds and names the process.
func TestDefaults(t *testing.T) {
	cfg, err := NewConfig[struct{}]("script", nil)
	if err != nil {
		t.Fatal(err)
	}
	host, _ := os.Hostname()
	if cfg.TTL != 15*time.Second || !strings.Contains(cfg.Owner, host) || !strings.HasSuffix(cfg.Owner, fmt.Sprintf(":%d", os.Getpid())) {
		t.Errorf("TTL %v, owner %q", cfg.TTL, cfg.Owner)
	}
}

func TestOptionOfAnotherBackend(t *testing.T) {
	type mine struct{ n int }
	add := BackendOption(func(m *mine) error { m.n++; return nil })
	m := mine{n: 1}
	if _, err := NewConfig("script", &m, add, add); err != nil || m.n != 3 {
		t.Errorf("applied to its own backend: %d, %v", m.n, err)
	}
	var other struct{ n int }
	for what, make := range map[string]func() (*Config, error){
		"other settings": func() (*Config, error) { return NewConfig("script", &other, add) },
		"no settings":    func() (*Config, error) { return NewConfig[mine]("script", nil, add) },
		"own refusal": func() (*Config, error) {
			return NewConfig("script", &m, BackendOption(func(*mine) error { return errors.New("no") }))
		},
	} {
		_, err := make()
		var e *Error
		if !errors.Is(err, ErrInvalidOption) || !errors.As(err, &e) || e.Op != "open" || e.Backend != "script" {
			t.Errorf("%s: %v", what, err)
		}
	}
}

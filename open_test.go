package locker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// opened is the argument of each Opener called, in a test that runs alone.
type opened struct {
	u    *URL
	opts []Option
}

// register registers a scheme of this test alone, with the parameter "prefix".
func register(t *testing.T, scheme string, err error) *opened {
	t.Helper()
	o := &opened{}
	Register(scheme, func(_ context.Context, u *URL, opts ...Option) (Locker, error) {
		*o = opened{u, opts}
		if err != nil {
			return nil, err
		}
		cfg, err := NewConfig[struct{}](scheme, nil, opts...)
		if err != nil {
			return nil, err
		}
		return New(&script{}, cfg)
	}, "prefix")
	t.Cleanup(func() {
		openersMu.Lock()
		delete(openers, scheme)
		openersMu.Unlock()
	})
	return o
}

// The parameters of every URL become options, which those of Open overrule; the others are the
// opener's.
func TestOpen(t *testing.T) {
	o := register(t, "test", nil)
	l, err := Open(context.Background(), "test://u:p@h/x?ttl=3s&owner=me&hand-over=20ms&prefix=a", WithTTL(4*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(t, l)
	cfg, err := NewConfig[struct{}]("test", nil, o.opts...)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.TTL != 4*time.Second || cfg.Owner != "me" || cfg.HandOver != 20*time.Millisecond {
		t.Errorf("TTL %v, owner %q, hand-over %v", cfg.TTL, cfg.Owner, cfg.HandOver)
	}
	if o.u.Params["prefix"] != "a" || len(o.u.Params) != 1 {
		t.Errorf("parameters %q", o.u.Params)
	}
}

// What cannot be opened is refused with an *Error that says what to do.
func TestOpenRefused(t *testing.T) {
	register(t, "test", nil)
	for raw, want := range map[string]string{
		"test://h?ttl=soon":         "ttl: want a duration",
		"test://h?ttl=1ms":          "not between",
		"test://h?hand-over=x":      "hand-over: want a duration",
		"test://h?preffix=x":        `unknown parameter "preffix", those of test:// are hand-over, owner, prefix, ttl`,
		"rediss+sentinel://h":       `import _ "github.com/seed80cd6120/locker/redis"`,
		"redlock://h":               `import _ "github.com/seed80cd6120/locker/redlock"`,
		"consul://h":                "unknown scheme consul, registered are: ",
		"localhost:6379":            "not a URL",
		"test://h?owner=" + long(9): "owner",
	} {
		l, err := Open(context.Background(), raw)
		var e *Error
		if l != nil || !errors.Is(err, ErrInvalidOption) || !errors.As(err, &e) || e.Op != "open" || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

func long(kilobytes int) string { return strings.Repeat("x", kilobytes<<10) }

// A context that is over is the error, beside that of the opener.
func TestOpenContext(t *testing.T) {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	o := register(t, "test", nil)
	if _, err := Open(over, "test://h"); !errors.Is(err, context.Canceled) || o.u != nil {
		t.Errorf("%v, opener called: %v", err, o.u != nil)
	}
	late, cancel := context.WithCancel(context.Background())
	away := errors.New("away")
	Register("late", func(context.Context, *URL, ...Option) (Locker, error) {
		cancel()
		return nil, away
	})
	t.Cleanup(func() { openersMu.Lock(); delete(openers, "late"); openersMu.Unlock() })
	if _, err := Open(late, "late://h"); !errors.Is(err, context.Canceled) || !errors.Is(err, away) {
		t.Error(err)
	}
}

// A scheme is registered once.
func TestRegisterRefused(t *testing.T) {
	register(t, "test", nil)
	open := func(context.Context, *URL, ...Option) (Locker, error) { return nil, nil }
	for scheme, open := range map[string]Opener{"test": open, "other": nil, "Other": open, "": open, "a b": open} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q was registered", scheme)
				}
			}()
			Register(scheme, open)
		}()
	}
}

// A URL shows no user, password or parameter, however it is printed.
func TestURLPrints(t *testing.T) {
	u, err := parseURL("test://secret-user:secret-word@h:1,i/path?prefix=secret-value")
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("opened", "url", u)
	slog.New(slog.NewTextHandler(&log, nil)).Info("opened", "url", u)
	for _, text := range []string{fmt.Sprint(u), fmt.Sprintf("%+v %#v %q %s %x", u, u, u, u, u), fmt.Sprintf("%+v", struct{ U *URL }{u}), log.String()} {
		if strings.Contains(text, "secret") || !strings.Contains(text, "test://h:1,i/path") {
			t.Error(text)
		}
	}
}

// A Locker shows its backend, however it is printed, and not what it was made with.
func TestLockerPrints(t *testing.T) {
	l := open(t, &script{}, WithOwner("secret"))
	defer closeAll(t, l)
	if got := fmt.Sprintf("%v %+v %#v %s %q", l, l, l, l, l); got != strings.TrimSpace(strings.Repeat("locker(script) ", 5)) {
		t.Error(got)
	}
}

package locker

import (
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// Limits on what a caller may ask for. Anything outside is refused before
// anything is sent.
const (
	// DefaultTTL is the TTL of a Locker made without WithTTL.
	DefaultTTL = 15 * time.Second
	// MinTTL is the shortest TTL and lease.
	MinTTL = 100 * time.Millisecond
	// MaxTTL is the longest.
	MaxTTL = 24 * time.Hour
	// MaxName is the greatest length of a name, in bytes.
	MaxName = 1024
	// MaxOwner is the greatest length of the owner's text, in bytes.
	MaxOwner = 1024
)

// An Option changes how a Locker is made. Those of this package go with every
// backend; backends have more of their own.
type Option func(*Config)

// WithTTL sets how long after its holder died a lock stays taken, DefaultTTL
// without it. A live holder renews by itself, so a longer TTL only means a
// longer wait after a crash, and a shorter one that a shorter pause of the
// holder loses the lock.
func WithTTL(ttl time.Duration) Option {
	return func(c *Config) {
		c.TTL = ttl
		c.check(ttl >= MinTTL && ttl <= MaxTTL, "TTL %v is not between %v and %v", ttl, MinTTL, MaxTTL)
	}
}

// WithOwner sets the text by which operators recognise the holder of a lock on
// the server. Without it the text is the host's name and the process's number.
func WithOwner(owner string) Option {
	return func(c *Config) {
		c.Owner = owner
		c.check(len(owner) <= MaxOwner, "owner of %d bytes is longer than %d", len(owner), MaxOwner)
	}
}

// WithLogger has the Locker report to l what no caller can be told: locks lost,
// clean-ups that have to be tried again, servers configured in a way that breaks
// a promise. Without it nothing is logged.
func WithLogger(l *slog.Logger) Option {
	return func(c *Config) {
		c.check(l != nil, "nil logger")
		c.Logger = l
	}
}

// WithClock replaces the clock by which deadlines are counted. It is meant for
// tests.
func WithClock(clock driver.Clock) Option {
	return func(c *Config) {
		c.check(clock != nil, "nil clock")
		c.Clock = clock
	}
}

// Config is what the options of a constructor add up to. Only the authors of
// backends need it: their constructor calls NewConfig, takes its own settings
// with Settings, and hands the Config to New.
type Config struct {
	TTL    time.Duration
	Owner  string
	Logger *slog.Logger
	Clock  driver.Clock

	err    error
	extras map[reflect.Type][]any
}

// NewConfig applies opts to the defaults. The error is that of the first option
// that cannot be honoured, ErrInvalidOption.
func NewConfig(opts ...Option) (*Config, error) {
	host, _ := os.Hostname()
	c := &Config{
		TTL:    DefaultTTL,
		Owner:  fmt.Sprintf("%s:%d", host, os.Getpid()),
		Logger: slog.New(slog.DiscardHandler),
		Clock:  SystemClock(),
		extras: make(map[reflect.Type][]any),
	}
	for _, opt := range opts {
		if opt == nil {
			return nil, fmt.Errorf("%w: nil option", ErrInvalidOption)
		}
		if opt(c); c.err != nil {
			return nil, c.err
		}
	}
	return c, nil
}

func (c *Config) check(ok bool, format string, args ...any) {
	if !ok && c.err == nil {
		c.err = fmt.Errorf("%w: %s", ErrInvalidOption, fmt.Sprintf(format, args...))
	}
}

// BackendOption makes an option out of a change to a backend's own settings, of
// type T. The backend collects it with Settings; given to another backend it is
// refused.
func BackendOption[T any](set func(*T)) Option {
	return func(c *Config) {
		t := reflect.TypeFor[T]()
		c.extras[t] = append(c.extras[t], set)
	}
}

// Settings applies to s, which holds the backend's defaults, every option made
// by BackendOption for its type.
func Settings[T any](c *Config, s *T) {
	t := reflect.TypeFor[T]()
	for _, set := range c.extras[t] {
		set.(func(*T))(s)
	}
	delete(c.extras, t)
}

// leftOver complains of options that no Settings has collected.
func (c *Config) leftOver() error {
	for t := range c.extras {
		return fmt.Errorf("%w: %s is an option of another backend", ErrInvalidOption, t.PkgPath())
	}
	return nil
}

// An AcquireOption changes one acquisition.
type AcquireOption func(*acquisition)

type acquisition struct {
	lease  time.Duration
	leased bool
	shared bool
}

// WithLease takes the lock for d and does not renew it: it is lost when d is
// over unless it was released before.
func WithLease(d time.Duration) AcquireOption {
	return func(a *acquisition) { a.lease, a.leased = d, true }
}

// Shared takes the lock together with other shared holders of the name, to the
// exclusion of exclusive ones. Backends that do not offer it return
// ErrUnsupported.
func Shared() AcquireOption {
	return func(a *acquisition) { a.shared = true }
}

// options adds up the options of one acquisition. Most have none.
func options(opts []AcquireOption) (acquisition, error) {
	if len(opts) == 0 {
		return acquisition{}, nil
	}
	a := new(acquisition)
	for _, opt := range opts {
		if opt == nil {
			return *a, fmt.Errorf("%w: nil option", ErrInvalidOption)
		}
		opt(a)
	}
	return *a, a.check()
}

func (a *acquisition) check() error {
	if a.leased && (a.lease < MinTTL || a.lease > MaxTTL) {
		return fmt.Errorf("%w: lease %v is not between %v and %v", ErrInvalidOption, a.lease, MinTTL, MaxTTL)
	}
	return nil
}

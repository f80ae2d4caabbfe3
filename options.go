package locker

import (
	"errors"
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

// An Option changes how a Locker is made, or says why it cannot. Those of this package
// go with every backend; backends have more of their own.
type Option func(*Config) error

// WithTTL sets how long after its holder died a lock stays taken, DefaultTTL
// without it. A live holder renews by itself, so a longer TTL only means a
// longer wait after a crash, and a shorter one that a shorter pause of the
// holder loses the lock.
func WithTTL(ttl time.Duration) Option {
	return func(c *Config) error {
		c.TTL = ttl
		return check(ttl >= MinTTL && ttl <= MaxTTL, "TTL %v is not between %v and %v", ttl, MinTTL, MaxTTL)
	}
}

// WithOwner sets the text by which operators recognise the holder of a lock on
// the server. Without it the text is the host's name and the process's number.
func WithOwner(owner string) Option {
	return func(c *Config) error {
		c.Owner = owner
		return check(len(owner) <= MaxOwner, "owner of %d bytes is longer than %d", len(owner), MaxOwner)
	}
}

// WithLogger has the Locker report to l what no caller can be told: locks lost,
// clean-ups that have to be tried again, servers configured in a way that breaks
// a promise. Without it nothing is logged. A handler that is slow delays nobody.
func WithLogger(l *slog.Logger) Option {
	return func(c *Config) error {
		c.Logger = l
		return check(l != nil, "nil logger")
	}
}

// WithClock replaces the clock by which deadlines are counted. It is meant for
// tests.
func WithClock(clock driver.Clock) Option {
	return func(c *Config) error {
		c.Clock = clock
		return check(clock != nil, "nil clock")
	}
}

// Config is what the options of a constructor add up to. Only the authors of
// backends need it: their constructor calls NewConfig and hands the Config to New.
type Config struct {
	TTL    time.Duration
	Owner  string
	Logger *slog.Logger
	Clock  driver.Clock

	settings any // of the backend, a *T
}

// NewConfig applies opts to the defaults of package locker and to settings, which
// holds those of the backend (nil if it has none). The error is an *Error that wraps
// ErrInvalidOption: an option cannot be honoured or is one of another backend.
func NewConfig[T any](backend string, settings *T, opts ...Option) (*Config, error) {
	host, _ := os.Hostname()
	c := &Config{
		TTL:      DefaultTTL,
		Owner:    fmt.Sprintf("%s:%d", host, os.Getpid()),
		Logger:   slog.New(slog.DiscardHandler),
		Clock:    SystemClock(),
		settings: settings,
	}
	for _, opt := range opts {
		err := fmt.Errorf("nil option")
		if opt != nil {
			err = opt(c)
		}
		if err != nil {
			return nil, InvalidOption(backend, err)
		}
	}
	return c, nil
}

// InvalidOption returns the error of a constructor that refuses what it was given.
func InvalidOption(backend string, err error) error {
	if !errors.Is(err, ErrInvalidOption) {
		err = fmt.Errorf("%w: %w", ErrInvalidOption, err)
	}
	return &Error{Op: "open", Backend: backend, Err: err}
}

// BackendOption makes an option out of a change to a backend's own settings, of
// type T. Given to a backend with other settings it is refused.
func BackendOption[T any](set func(*T) error) Option {
	return func(c *Config) error {
		s, ok := c.settings.(*T)
		if !ok || s == nil {
			return fmt.Errorf("%s is an option of another backend", reflect.TypeFor[T]().PkgPath())
		}
		return set(s)
	}
}

// check returns an error of that text unless ok.
func check(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalidOption}, args...)...)
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

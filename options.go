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
	// MaxPermits is the greatest number of permits that a name can stand for.
	MaxPermits = 1 << 20
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

// WithLogger has the Locker report to l what no caller can be told: as warnings, locks
// lost and servers configured in a way that breaks a promise; at level Debug, cleanups and
// renewals that are tried again. Without it nothing is logged. A handler that is slow delays nobody.
func WithLogger(l *slog.Logger) Option {
	return func(c *Config) error {
		if l == nil {
			return check(false, "nil logger")
		}
		c.Logger = slog.New(&logQueue{next: l.Handler(), state: &c.log})
		return nil
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

// WithHandOver lets the goroutines of this Locker pass a name on among themselves,
// without asking the server, for d after it was granted: a Release gives the lock to the
// next goroutine of the process that waits for it, with the next token, and a shared
// lock is joined by those who ask for the same. Where many goroutines of a process want
// one name this takes no request at all; others, who wait at the server, are
// overtaken for d at most and one holding more. 0, which is the default, means never.
//
// A lock is passed on only to who asks for the same kind and owner (As). Locks with WithLease
// or AtLeast are not passed on, nor are permits that fit twice, as Permits(1, 10).
func WithHandOver(d time.Duration) Option {
	return func(c *Config) error {
		c.HandOver = d
		return check(d >= 0 && d <= MaxTTL, "hand-over %v is not between 0 and %v", d, MaxTTL)
	}
}

// WithObserver has the Locker tell o what it does, for metrics and traces.
func WithObserver(o *Observer) Option {
	return func(c *Config) error {
		c.Observer = o
		return check(o != nil, "nil observer")
	}
}

// WithOnClose has Close call f at its end, when nothing uses the server any more: to close a client that
// was made for this Locker alone. If the constructor returns an error f is not called.
func WithOnClose(f func() error) Option {
	return func(c *Config) error {
		c.onClose = append(c.onClose, f)
		return check(f != nil, "nil function")
	}
}

// Config is what the options of a constructor add up to. Only the authors of
// backends need it: their constructor calls NewConfig and hands the Config to New.
type Config struct {
	TTL    time.Duration
	Owner  string
	Logger *slog.Logger // never blocks
	Clock  driver.Clock

	HandOver time.Duration
	Observer *Observer // or nil

	onClose  []func() error
	log      logState
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

// InvalidOption returns the error of a constructor that refuses what it was given, which err says:
// an *Error that wraps ErrInvalidOption. An err that is one is returned as it is.
func InvalidOption(backend string, err error) error {
	var known *Error
	if errors.As(err, &known) {
		return err
	}
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

// An AcquireOption changes one acquisition, or says why it cannot.
type AcquireOption func(*acquisition) error

// acquisition is what the options of one acquisition add up to.
type acquisition struct {
	weight, limit int32
	lease         time.Duration // of WithLease, or 0
	atLeast       time.Duration // of AtLeast, or 0
	owner         string
	reenter       bool
}

// Shared takes the lock together with other shared holders of the name, to the
// exclusion of exclusive ones.
func Shared() AcquireOption {
	return func(a *acquisition) error { return a.setKind(1, driver.All) }
}

// Permits takes k of the n permits that the name stands for. Where all acquisitions of a
// name give the same n, its holders together never have more than n, and with k = n the
// name is held alone. (By the rule, a shared claim is granted beside any permits, and counts
// as one of them for the permits behind it.)
func Permits(k, n int) AcquireOption {
	return func(a *acquisition) error {
		if k < 1 || n < k || n > MaxPermits {
			return check(false, "%d of %d permits, want 1 to n of at most %d", k, n, MaxPermits)
		}
		return a.setKind(int32(k), int32(n))
	}
}

// setKind refuses two kinds at once.
func (a *acquisition) setKind(weight, limit int32) error {
	if a.weight != driver.All && (a.weight != weight || a.limit != limit) {
		return check(false, "two kinds of lock at once")
	}
	a.weight, a.limit = weight, limit
	return nil
}

// WithLease takes the lock for d and does not renew it: it is lost when d is
// over unless it was released before.
func WithLease(d time.Duration) AcquireOption {
	return func(a *acquisition) error {
		a.lease = d
		return check(d >= MinTTL && d <= MaxTTL, "lease %v is not between %v and %v", d, MinTTL, MaxTTL)
	}
}

// AtLeast keeps the name taken for d from its acquisition on, also if the lock is released
// before: a job that is over quickly is not run again by the next replica, whose
// clock is a little behind. With WithLease, which then must not be shorter, it
// bounds how long the name is taken on both sides. A holder that dies frees the name as
// ever.
func AtLeast(d time.Duration) AcquireOption {
	return func(a *acquisition) error {
		a.atLeast = d
		return check(d > 0 && d <= MaxTTL, "at least %v is not between 0 and %v", d, MaxTTL)
	}
}

// As sets the text by which operators recognise this one acquisition on the server,
// instead of the Locker's own (WithOwner).
func As(owner string) AcquireOption {
	return func(a *acquisition) error {
		a.owner = owner
		return check(len(owner) <= MaxOwner, "owner of %d bytes is longer than %d", len(owner), MaxOwner)
	}
}

// Reenter joins the lock from which ctx comes, if that is of the same name and Locker, where
// Acquire would otherwise return ErrHeld. The new Lock has the same token; what it was
// acquired with besides (WithLease, AtLeast, As) is that of the lock it joins. It
// ends when it is released or when the first lock of that name ends: the name is free
// when the first who took it lets go. A lock that is more than the one it would join
// (exclusive in shared, more permits) is refused with ErrHeld.
func Reenter() AcquireOption {
	return func(a *acquisition) error { a.reenter = true; return nil }
}

// acquisition adds up the options of one acquisition.
func (c *core) acquisition(opts []AcquireOption) (acquisition, error) {
	if len(opts) == 0 {
		return acquisition{weight: driver.All, limit: driver.All, owner: c.cfg.Owner}, nil
	}
	a := &acquisition{weight: driver.All, limit: driver.All, owner: c.cfg.Owner}
	for _, opt := range opts {
		err := check(opt != nil, "nil option")
		if err == nil {
			err = opt(a)
		}
		if err != nil {
			return *a, err
		}
	}
	if a.lease > 0 && a.atLeast > a.lease {
		return *a, check(false, "at least %v is longer than the lease of %v", a.atLeast, a.lease)
	}
	return *a, c.supports(*a)
}

// supports returns ErrUnsupported for what the backend does not offer.
func (c *core) supports(a acquisition) error {
	switch {
	case isShared(a) && !c.traits.Shared:
		return fmt.Errorf("%w: shared locks", ErrUnsupported)
	case a.limit != driver.All && !c.traits.Permits:
		return fmt.Errorf("%w: permits", ErrUnsupported)
	case a.atLeast > 0 && !c.traits.Linger:
		return fmt.Errorf("%w: AtLeast", ErrUnsupported)
	}
	return nil
}

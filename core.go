package locker

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// core is the Locker of every backend. It keeps every promise that does not
// depend on the kind of server; the driver keeps the rest.
type core struct {
	driver  driver.Driver
	relayer driver.Relayer // the same, if it is one
	traits  driver.Traits
	cfg     *Config
	clock   driver.Clock
	keeper  *keeper
	undos   chan struct{} // bounds the clean-ups that talk to the server at once

	open  context.Context // ends when Close begins
	shut  context.CancelFunc
	alive context.Context // ends when Close has done what it could
	die   context.CancelFunc

	mu     sync.Mutex
	closed bool
	busy   int               // calls and clean-ups under way
	idle   chan struct{}     // closed when closed and no longer busy
	quiet  bool              // idle has been closed
	queues map[string]*queue // of the names asked for now; nil where nobody waits
}

// New makes a Locker of a driver. It is for the authors of backends: users call
// the constructor of a backend.
func New(d driver.Driver, cfg *Config) (Locker, error) {
	c := &core{
		driver: d,
		traits: d.Traits(),
		cfg:    cfg,
		clock:  cfg.Clock,
		undos:  make(chan struct{}, 16),
		idle:   make(chan struct{}),
		queues: make(map[string]*queue),
	}
	if c.traits.Prompt {
		c.relayer, _ = d.(driver.Relayer)
	}
	c.open, c.shut = context.WithCancel(context.Background())
	c.alive, c.die = context.WithCancel(context.Background())
	c.keeper = newKeeper(c)
	return c, nil
}

func (c *core) Acquire(ctx context.Context, name string, opts ...AcquireOption) (*Lock, error) {
	a, err := c.admit(ctx, name, opts)
	if err != nil {
		return nil, c.fail("acquire", name, err)
	}
	defer c.done()
	lock, err := c.join(ctx, name, a)
	if err != nil {
		return nil, c.fail("acquire", name, err)
	}
	defer c.leave(name)
	wait := true
	for pause := newBackoff(); ; {
		if lock == nil {
			lock = newLock(ctx, c, c.newClaim(name, a, wait))
		}
		err := c.attempt(ctx, lock)
		switch late := errors.Is(err, errTooLate); {
		case err == nil:
			return lock, nil
		case ctx.Err() != nil || c.isClosing() || wait && !late:
			return nil, c.fail("acquire", name, err)
		case late:
			c.rest(ctx, &pause)
		}
		lock, wait = nil, true // an outage is waited out too
	}
}

// rest pauses, until ctx or the Locker ends.
func (c *core) rest(ctx context.Context, pause *backoff) {
	call := &callContext{Context: ctx, with: c.open}
	defer call.end()
	pause.sleep(call)
}

func (c *core) TryAcquire(ctx context.Context, name string, opts ...AcquireOption) (*Lock, error) {
	a, err := c.admit(ctx, name, opts)
	if err != nil {
		return nil, c.fail("try", name, err)
	}
	defer c.done()
	lock := newLock(ctx, c, c.newClaim(name, a, false))
	if err := c.attempt(ctx, lock); err != nil {
		return nil, c.fail("try", name, err)
	}
	return lock, nil
}

// admit refuses what can be refused without asking anybody, and counts the call
// as under way.
func (c *core) admit(ctx context.Context, name string, opts []AcquireOption) (acquisition, error) {
	a, err := options(opts)
	if name == "" || len(name) > MaxName {
		return a, fmt.Errorf("%w: %d bytes, want 1 to %d", ErrInvalidName, len(name), MaxName)
	}
	if err != nil {
		return a, err
	}
	if a.shared && !c.traits.Shared {
		return a, fmt.Errorf("%w: shared locks", ErrUnsupported)
	}
	if !c.begin() {
		return a, ErrClosed
	}
	if ctx.Err() != nil {
		c.done()
		return a, ended(ctx, nil)
	}
	return a, nil
}

// begin counts something under way that Close has to wait for, unless the
// Locker is closed.
func (c *core) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.busy++
	return true
}

// more counts something that follows from what is already under way.
func (c *core) more() {
	c.mu.Lock()
	c.busy++
	c.mu.Unlock()
}

func (c *core) done() {
	c.mu.Lock()
	c.busy--
	if c.closed && c.busy == 0 && !c.quiet {
		c.quiet = true
		close(c.idle)
	}
	c.mu.Unlock()
}

func (c *core) fail(op, name string, err error) error {
	var known *Error
	if errors.As(err, &known) {
		return err
	}
	return &Error{Op: op, Backend: c.traits.Backend, Name: name, Err: err}
}

func (c *core) newClaim(name string, a acquisition, wait bool) driver.Claim {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails: the program would have ended
	var text [2 * len(id)]byte
	hex.Encode(text[:], id[:])
	claim := driver.Claim{
		Name:   name,
		ID:     string(text[:]),
		Owner:  c.cfg.Owner,
		TTL:    c.cfg.TTL,
		Wait:   wait,
		Wanted: func() {},
	}
	if a.leased {
		claim.TTL, claim.Lease = a.lease, true
	}
	claim.Weight, claim.Limit = driver.All, driver.All
	if a.shared {
		claim.Weight = 1
	}
	return claim
}

// margin is taken off every deadline because two clocks never run at quite the
// same rate, and because a timer fires a little after its time.
func margin(ttl time.Duration) time.Duration {
	return min(ttl/50+5*time.Millisecond, ttl/10)
}

// ended is the error for a call whose context ended; why is what the driver said
// last, if anything. errors.Is finds the context's error, its cause, and why.
func ended(ctx context.Context, why error) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); !errors.Is(cause, err) {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	if why != nil && !errors.Is(why, ctx.Err()) {
		err = fmt.Errorf("%w: %w", err, why)
	}
	return err
}

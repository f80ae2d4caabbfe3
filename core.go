package locker

import (
	"context"
	"fmt"
	"sync"

	"github.com/seed80cd6120/locker/driver"
)

// core is the Locker of every backend. It keeps every promise that does not
// depend on the kind of server; the driver keeps the rest.
type core struct {
	driver    driver.Driver
	inspector driver.Inspector // these four are the driver, or nil if it has not the methods
	evictor   driver.Evictor
	weigher   driver.Weigher
	lingerer  driver.Lingerer
	traits    driver.Traits
	cfg       *Config
	clock     driver.Clock
	renewer   *renewer
	cleanups  chan struct{} // bounds those that talk to the server at once
	retries   chan struct{} // bounds repeated cleanups apart, so that a server that is away does not hold up first ones

	open  context.Context // ends when Close begins
	shut  context.CancelFunc
	alive context.Context // ends when Close has done what it could
	die   context.CancelFunc

	// Mutexes are locked in this order: mu, that of a lease, that of the renewer, busyMu.
	mu     sync.Mutex
	queues map[string]*localQueue // of the names asked for now

	busyMu sync.Mutex
	closed bool
	busy   int           // calls, leases and cleanups under way
	idle   chan struct{} // closed when closed and no longer busy
	quiet  bool          // idle has been closed
}

// New makes a Locker of a driver. It is for the authors of backends: users call
// the constructor of a backend.
func New(d driver.Driver, cfg *Config) (Locker, error) {
	c := &core{
		driver:   d,
		traits:   d.Traits(),
		cfg:      cfg,
		clock:    cfg.Clock,
		cleanups: make(chan struct{}, 16),
		retries:  make(chan struct{}, 16),
		idle:     make(chan struct{}),
		queues:   make(map[string]*localQueue),
	}
	if err := c.claimed(); err != nil {
		return nil, c.fail("open", "", err)
	}
	c.open, c.shut = context.WithCancel(context.Background())
	c.alive, c.die = context.WithCancel(context.Background())
	c.renewer = newRenewer(c)
	return c, nil
}

// claimed checks that the driver implements what its traits say.
func (c *core) claimed() error {
	var ok [4]bool
	c.inspector, ok[0] = c.driver.(driver.Inspector)
	c.evictor, ok[1] = c.driver.(driver.Evictor)
	c.weigher, ok[2] = c.driver.(driver.Weigher)
	c.lingerer, ok[3] = c.driver.(driver.Lingerer)
	for i, claimed := range []bool{c.traits.Inspect, c.traits.Evict, c.traits.Downgrade, c.traits.Linger} {
		if claimed && !ok[i] {
			return fmt.Errorf("%w: the driver claims a trait without the methods for it", ErrUnsupported)
		}
	}
	return nil
}

// Format prints no more than the backend, whatever the verb: what is inside changes, and the client may know
// a password.
func (c *core) Format(s fmt.State, _ rune) { _, _ = fmt.Fprintf(s, "locker(%s)", c.traits.Backend) }

func (c *core) Acquire(ctx context.Context, name string, opts ...AcquireOption) (*Lock, error) {
	return c.take(ctx, "acquire", name, opts, true)
}

func (c *core) TryAcquire(ctx context.Context, name string, opts ...AcquireOption) (*Lock, error) {
	return c.take(ctx, "try", name, opts, false)
}

// take checks the arguments of an acquisition and carries it out, telling the observer.
func (c *core) take(ctx context.Context, op, name string, opts []AcquireOption, wait bool) (*Lock, error) {
	a, err := c.admit(ctx, name, opts)
	if err != nil {
		return nil, c.fail(op, name, err)
	}
	defer c.done()
	var done func(*Lock, error)
	if o := c.cfg.Observer; o != nil && o.Acquiring != nil {
		ctx, done = o.Acquiring(ctx, Attempt{Backend: c.traits.Backend, Name: name, Mode: a.mode(), Wait: wait})
	}
	lock, err := c.reenter(ctx, name, a)
	switch {
	case lock != nil || err != nil:
	case wait:
		lock, err = c.acquire(ctx, name, a)
	default:
		lock, err = c.try(ctx, name, a)
	}
	if err != nil {
		err = c.fail(op, name, err)
	}
	if done != nil {
		done(lock, err)
	}
	return lock, err
}

// admit refuses what can be refused without asking anybody, and counts the call
// as under way.
func (c *core) admit(ctx context.Context, name string, opts []AcquireOption) (acquisition, error) {
	a, err := c.acquisition(opts)
	if name == "" || len(name) > MaxName {
		return a, fmt.Errorf("%w: %d bytes, want 1 to %d", ErrInvalidName, len(name), MaxName)
	}
	if err != nil {
		return a, err
	}
	return a, c.enter(ctx)
}

// enter counts a call as under way, unless it is over before it begins.
func (c *core) enter(ctx context.Context) error {
	if !c.begin() {
		return ErrClosed
	}
	if ctx.Err() != nil {
		c.done()
		return ended(ctx, nil)
	}
	return nil
}

// begin counts something under way that Close has to wait for, unless the
// Locker is closed.
func (c *core) begin() bool {
	c.busyMu.Lock()
	defer c.busyMu.Unlock()
	if c.closed {
		return false
	}
	c.busy++
	return true
}

// more counts something that follows from what is already under way.
func (c *core) more() {
	c.busyMu.Lock()
	c.busy++
	c.busyMu.Unlock()
}

// done ends what begin or more counted.
func (c *core) done() {
	c.busyMu.Lock()
	c.busy--
	if c.closed && c.busy == 0 && !c.quiet {
		c.quiet = true
		close(c.idle)
	}
	c.busyMu.Unlock()
}

func (c *core) isClosing() bool { return c.open.Err() != nil }

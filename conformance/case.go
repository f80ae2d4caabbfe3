package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/lateness"
)

// C is what a running case works with.
type C struct {
	tb     testing.TB
	b      *Backend
	h      *Harness
	cs     *testCase
	kind   *kind   // nil if it does not matter
	own    options // of those whom the case is about
	other  options // of the others who want the name
	late   *lateness.Meter
	id     string
	ctx    context.Context // ends before the watchdog barks
	cancel context.CancelFunc
	seed   uint64

	mu        sync.Mutex
	closed    bool
	undecided bool
	failures  int
	clients   []*client
	viewing   *client // by which the case only inspects, nil if it has not yet
	heals     []func()
	children  []*child
}

// client is one client of the store, as if it were a process of its own.
type client struct {
	Client
	c      *C
	link   Link
	locker locker.Locker // nil if it was not opened by openLocker
}

// longTTL is used where nothing is to expire while the case runs.
const longTTL = 20 * time.Second

// shortLease is used where a lock is to be lost soon: not so short that it is over
// before a slow machine has handed it out.
const shortLease = 250 * time.Millisecond

// open opens a client whose locks outlive the case.
func (c *C) open(opts ...locker.Option) *client {
	c.tb.Helper()
	cl, err := c.tryOpen(opts...)
	if err != nil {
		c.fatalf("open: %v", err)
	}
	return cl
}

func (c *C) tryOpen(opts ...locker.Option) (*client, error) {
	opts = append([]locker.Option{locker.WithTTL(longTTL)}, opts...)
	open := c.h.OpenClient
	if open == nil {
		open = func(ctx context.Context, opts ...locker.Option) (Client, error) {
			return clientOf(c.h.Open(ctx, opts...))
		}
	}
	inner, err := open(c.ctx, opts...)
	if err != nil {
		return nil, err
	}
	return c.keep(inner, Link{}), nil
}

// openLocker opens a client whose Locker the case can use, without Harness.OpenClient.
func (c *C) openLocker(opts ...locker.Option) *client {
	c.tb.Helper()
	l, err := c.h.Open(c.ctx, append([]locker.Option{locker.WithTTL(longTTL)}, opts...)...)
	if err != nil {
		c.fatalf("open: %v", err)
	}
	if c.b.wrap != nil {
		l = c.b.wrap(l)
	}
	cl := c.keep(lockerClient{l}, Link{})
	cl.locker = l
	return cl
}

// lock takes a lock of package locker that must be had.
func (cl *client) lock(name string, opts ...locker.AcquireOption) *locker.Lock {
	c := cl.c
	c.tb.Helper()
	lock, err := cl.locker.Acquire(c.ctx, name, opts...)
	if err != nil {
		c.fatalf("acquire %q: %v", name, err)
	}
	return lock
}

// openLink opens a client that can be cut off.
func (c *C) openLink(opts ...locker.Option) *client {
	c.tb.Helper()
	opts = append([]locker.Option{locker.WithTTL(longTTL)}, opts...)
	open := c.h.OpenLinkClient
	if open == nil {
		open = func(ctx context.Context, opts ...locker.Option) (Client, Link, error) {
			l, link, err := c.h.OpenLink(ctx, opts...)
			inner, err := clientOf(l, err)
			return inner, link, err
		}
	}
	inner, link, err := open(c.ctx, opts...)
	if err != nil {
		c.fatalf("open over a link: %v", err)
	}
	c.mu.Lock()
	c.heals = append(c.heals, link.Heal)
	c.mu.Unlock()
	return c.keep(inner, link)
}

func (c *C) keep(inner Client, link Link) *client {
	if c.b.rig != nil {
		inner = c.b.rig(inner)
	}
	cl := &client{Client: inner, c: c, link: link}
	c.mu.Lock()
	c.clients = append(c.clients, cl)
	c.mu.Unlock()
	return cl
}

// tidy ends what the case has opened, which must not hang either.
func (c *C) tidy() {
	c.mu.Lock()
	clients, heals, children := c.clients, c.heals, c.children
	c.mu.Unlock()
	for _, ch := range children {
		ch.kill()
	}
	for _, heal := range heals {
		heal()
	}
	shut(clients)
}

// shut closes clients, all at once.
func shut(clients []*client) {
	each(len(clients), func(i int) {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		// What Close has to do is tested elsewhere.
		_ = clients[i].Close(ctx)
	})
}

var nameCount atomic.Int64

// name returns a name that nobody else uses.
func (c *C) name(what string) string {
	return fmt.Sprintf("conformance/%x-%d/%s", c.seed&0xffffffff, nameCount.Add(1), what)
}

// mine is a text that is in every name that c.name returns, and in no name of
// another case.
func (c *C) mine() string { return fmt.Sprintf("%x-", c.seed&0xffffffff) }

// acquire takes a lock that must be had.
func (cl *client) acquire(name string, opts ...locker.AcquireOption) Holding {
	c := cl.c
	c.tb.Helper()
	h, err := cl.Acquire(c.ctx, name, opts...)
	if err != nil {
		c.fatalf("acquire %q: %v", name, err)
	}
	return h
}

func (cl *client) try(name string, opts ...locker.AcquireOption) (Holding, error) {
	return cl.TryAcquire(cl.c.ctx, name, opts...)
}

// acquirer is Acquire or TryAcquire.
type acquirer = func(ctx context.Context, name string, opts ...locker.AcquireOption) (Holding, error)

// ways returns both ways to acquire, by their names.
func (cl *client) ways() map[string]acquirer {
	return map[string]acquirer{"Acquire": cl.Acquire, "TryAcquire": cl.TryAcquire}
}

// taken fails the case unless name is taken.
func (cl *client) taken(name string, opts ...locker.AcquireOption) {
	cl.c.tb.Helper()
	h, err := cl.try(name, opts...)
	switch {
	case err == nil:
		_ = h.Release(cl.c.ctx)
		cl.c.errorf("TryAcquire took %q, which is held", name)
	case !errors.Is(err, locker.ErrNotAcquired):
		cl.c.errorf("TryAcquire of %q, which is held: %v, want ErrNotAcquired", name, err)
	}
}

// free fails the case unless name can be had within d, and leaves it free.
func (cl *client) free(name string, d time.Duration) {
	c := cl.c
	c.tb.Helper()
	ctx, cancel := context.WithTimeout(c.ctx, d)
	defer cancel()
	start := time.Now()
	h, err := cl.Acquire(ctx, name)
	if err != nil {
		c.errorf("%q is not free after %v: %v", name, time.Since(start).Round(time.Millisecond), err)
		return
	}
	c.release(h)
}

// release gives back a lock that must be held.
func (c *C) release(h Holding) {
	c.tb.Helper()
	if err := h.Release(c.ctx); err != nil {
		c.errorf("release of %q: %v", h.Name(), err)
	}
}

// alive fails the case if the lock is lost.
func (c *C) alive(h Holding, when string) {
	c.tb.Helper()
	if h.Context().Err() != nil {
		c.errorf("%q lost %s: %v", h.Name(), when, context.Cause(h.Context()))
	}
}

// within waits until cond is true, and says whether it is.
func (c *C) within(d time.Duration, cond func() bool) bool {
	end := time.Now().Add(d)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		if cond() {
			return true
		}
		if time.Now().After(end) || c.ctx.Err() != nil {
			return false
		}
		time.Sleep(pause)
	}
}

// pending is an Acquire under way.
type pending struct {
	c     *C
	name  string
	done  chan struct{}
	lock  Holding
	err   error
	stamp int64 // taken after it had returned
}

// begin starts an Acquire and returns when the call has begun to wait for
// something, or a little later where that cannot be seen.
func (cl *client) begin(ctx context.Context, name string, opts ...locker.AcquireOption) *pending {
	p := &pending{c: cl.c, name: name, done: make(chan struct{})}
	seen := &seenContext{Context: ctx, looked: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.lock, p.err = cl.Acquire(seen, name, opts...)
		p.stamp = stamp()
	}()
	select {
	case <-seen.looked:
	case <-p.done:
	case <-time.After(200 * time.Millisecond):
	}
	return p
}

// seenContext tells when somebody first waits for it.
type seenContext struct {
	context.Context
	once   sync.Once
	looked chan struct{}
}

func (s *seenContext) Done() <-chan struct{} {
	s.once.Do(func() { close(s.looked) })
	return s.Context.Done()
}

// queue is begin, and then time for the call to get to the server and queue there.
func (cl *client) queue(name string, opts ...locker.AcquireOption) *pending {
	p := cl.begin(cl.c.ctx, name, opts...)
	cl.c.settle()
	return p
}

// settle gives requests under way the time to arrive. No case depends on it to
// pass, only to be strict. Every other pause in a case is the length of a fault, of a holding,
// or of a look at what must not happen, or a moment picked at random.
func (c *C) settle() {
	time.Sleep(60*time.Millisecond + min(2*c.late.Worst(time.Now().Add(-time.Second)), 200*time.Millisecond))
}

func (p *pending) finished() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// held returns the lock, which has to come within d.
func (p *pending) held(d time.Duration) Holding {
	c := p.c
	c.tb.Helper()
	t := time.NewTimer(d)
	defer t.Stop()
	start := time.Now()
	select {
	case <-p.done:
	case <-t.C:
		c.fatalf("still waiting for %q after %v", p.name, d)
	case <-c.ctx.Done():
		c.fatalf("still waiting for %q after %v", p.name, time.Since(start).Round(time.Millisecond))
	}
	if p.err != nil {
		c.fatalf("acquire %q: %v", p.name, p.err)
	}
	return p.lock
}

// returned waits until the call has come back, whatever it says.
func (p *pending) returned(d time.Duration) {
	p.c.tb.Helper()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-p.done:
	case <-t.C:
		p.c.fatalf("acquire %q has not returned after %v", p.name, d)
	}
}

// soon is a time within which a healthy server answers anything, however loaded
// the machine.
const soon = 15 * time.Second

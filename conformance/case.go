package conformance

import (
	"context"
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
	tb      testing.TB
	b       *Backend
	h       *Harness
	cs      *testCase
	kind    *kind   // nil if it does not matter
	own     options // of those whom the case is about
	other   options // of the others who want the name
	late    *lateness.Meter
	id      string
	ctx     context.Context // ends before the watchdog ends the case
	opening context.Context // the same with a deadline, for opening a client
	cancel  context.CancelFunc
	seed    uint64
	begun   time.Time
	end     time.Time     // of ctx, if this machine is not late
	long    time.Duration // a wait for a grant that says that there is none, on a machine that is mostly on time
	x       string        // the name that the case is about
	token   int64         // the greatest that rises has seen
	wasAway atomic.Bool   // the server, see whileAway

	mu        sync.Mutex
	closed    bool
	undecided bool
	failures  int
	clients   []*client
	viewing   *client // by which the case only inspects, nil if it has not yet
	heals     []func()
	children  []*childProcess
}

// longTTL is used where nothing is to expire while the case runs.
const longTTL = 20 * time.Second

// shortLease is used where a lock is to be lost soon: not so short that it is over
// before a slow machine has handed it out.
const shortLease = 250 * time.Millisecond

// soon is a time within which a healthy server answers anything, however loaded
// the machine.
const soon = 15 * time.Second

// open opens a client whose locks outlive the case.
func (c *C) open(opts ...locker.Option) *client {
	c.tb.Helper()
	cl, err := c.tryOpen(opts...)
	c.must(err, "open")
	return cl
}

func (c *C) tryOpen(opts ...locker.Option) (*client, error) {
	inner, err := c.h.open(c.opening, lasting(opts)...)
	if err != nil {
		return nil, err
	}
	return c.keep(inner, Link{}), nil
}

// lasting returns opts, and a TTL that outlives the case unless they have another.
func lasting(opts []locker.Option) []locker.Option {
	return append([]locker.Option{locker.WithTTL(longTTL)}, opts...)
}

// openLocker opens a client whose Locker the case can use, without Harness.OpenClient.
func (c *C) openLocker(opts ...locker.Option) *client {
	c.tb.Helper()
	l, err := c.h.Open(c.opening, lasting(opts)...)
	c.must(err, "open")
	if c.b.wrap != nil {
		l = c.b.wrap(l)
	}
	cl := c.keep(lockerClient{l}, Link{})
	cl.locker = l
	return cl
}

// openLink opens a client that can be cut off.
func (c *C) openLink(opts ...locker.Option) *client {
	c.tb.Helper()
	inner, link, err := c.h.openLink(c.opening, lasting(opts)...)
	c.must(err, "open over a link")
	c.mu.Lock()
	c.heals = append(c.heals, link.Heal)
	c.mu.Unlock()
	return c.keep(inner, link)
}

// openMany opens n clients.
func (c *C) openMany(n int) []*client {
	c.tb.Helper()
	all := make([]*client, n)
	for i := range all {
		all[i] = c.open()
	}
	return all
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

// names returns n names that nobody else uses, in the order of their bytes.
func (c *C) names(n int) []string {
	base := c.name("")
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s%05d", base, i)
	}
	return all
}

// mine is a text that is in every name that c.name returns, and in no name of
// another case.
func (c *C) mine() string { return fmt.Sprintf("%x-", c.seed&0xffffffff) }

// ended returns a context that has ended.
func (c *C) ended() context.Context {
	ctx, cancel := context.WithCancel(c.ctx)
	cancel()
	return ctx
}

// each calls do for 0 to n-1, some at a time.
func each(n int, do func(i int)) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, 8)
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			do(i)
		})
	}
	wg.Wait()
}

// together calls do for 0 to n-1, all at the same time.
func together(n int, do func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { do(i) })
	}
	wg.Wait()
}

// settle gives requests under way the time to arrive. No case depends on it to
// pass, only to be strict. Every other pause in a case is the length of a fault, of a holding,
// or of a look at what must not happen, or a moment picked at random.
func (c *C) settle() {
	time.Sleep(60*time.Millisecond + min(2*c.late.Worst(time.Now().Add(-time.Second)), 200*time.Millisecond))
}

// within waits until cond is true, for d and for as long as this machine is late meanwhile, and says whether it is.
func (c *C) within(d time.Duration, cond func() bool) bool {
	start := time.Now()
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		if cond() {
			return true
		}
		if time.Since(start) > d+c.late.Slack(start) || c.ctx.Err() != nil {
			return false
		}
		time.Sleep(pause)
	}
}

// closes waits until done is closed, for d and for as long as this machine is late meanwhile,
// and says whether it is.
func (c *C) closes(done <-chan struct{}, d time.Duration) bool {
	_, closed := lateness.Receive(c.ctx, c.late, done, d)
	return closed
}

func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

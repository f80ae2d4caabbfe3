// Package conformance holds a backend of package locker to the promises that
// every backend makes. It is for the author of a backend, ours or your own:
//
//	func TestConformance(t *testing.T) {
//		conformance.Run(t, conformance.Backend{
//			New:    newHarness, // func(t testing.TB) *conformance.Harness
//			Fair:   true,
//			Fenced: true,
//			TTL:    time.Second,
//		})
//	}
//
// # The harness
//
// New is called once for each case and returns a fresh [Harness]: the way to the
// store, and the ways to break it. Only Harness.Open is required. It opens one
// more client of the same store each time it is called, as independent of the
// others as another process would be: its own connections where the backend makes
// them. What a harness needs beyond that (a server started, a client to be
// closed) is cleaned up with t.Cleanup.
//
// A server may be shared by all harnesses, also with other programs: the suite
// makes up names of its own, except for those cases that try odd names. Cases that
// stop the server or count its requests run one after the other, when all others
// are done. If every harness has a server of its own, say so with
// Backend.Private, and everything runs at once.
//
// # Hooks
//
// Every other field of the Harness is a hook by which the suite breaks or observes
// something. A case whose hook is missing is skipped and named in a summary at
// the end; it does not count as passed. With Backend.RequireAll it fails, as does one
// that this machine is too slow to decide.
//
// # Claims
//
// Fair, Fenced, Shared, Permits, Downgrade, Inspect, Evict, AtLeast and Durable are claims.
// What is claimed is tested; what is not claimed has to be refused in the way that
// package locker says, and that is tested as well.
//
// # Kinds of locks
//
// Cases in which the kind of a lock may matter to the server are run for each kind
// that is claimed, as subtests: "Ghosts/CancelledWaiter/shared". A kind that is not
// claimed is left out and not counted as not run.
//
// With go test -short each case is run for one of them, unless LOCKER_CONFORMANCE is "full".
//
// # Other processes
//
// For the cases that kill or stop a process the suite starts the test binary once
// more, with -test.run naming the test that called Run, and the call of Run in that
// process takes orders instead of testing. Nothing is needed but Backend.Dial,
// which opens a Locker at Harness.Address, and that nothing expensive happens
// before Run: see [InChild].
//
// # What the suite itself promises
//
// There are no false positives. A case fails only if the sentence that it prints
// was broken. It never expects anything sooner than was promised; where the promise
// is a time, the delay with which this machine runs goroutines is measured all the
// while and added. Order and exclusion are judged by what was observed in a certain
// order, not by time. A case that came to no verdict because the machine was late, so that
// servers did not answer for instance, is run again when the others are done: what it finds once
// it has come to no verdict does not count, unless holders overlap or tokens fall, which no delay brings about.
//
// Every case has a watchdog: if it hangs the goroutines that it started are printed.
//
// A pass means less than a failure: a lock that is wrong once in a million times
// will pass. The suite is itself tested, by dozens of lockers each with one defect,
// which have to fail in the case meant for them.
//
// # Benchmarks and names
//
// [Benchmark] measures a backend in the two situations that matter, in the form
// that benchstat reads. [NameEncoding] tests a function that turns names into
// keys or paths.
package conformance

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
)

// Backend says what is to be tested and what is claimed of it.
type Backend struct {
	// New returns what one case works with. It may call t.Fatal and t.Cleanup.
	New func(t testing.TB) *Harness

	// Dial opens a Locker at an address that a harness of another process gave.
	// Needed by the cases with other processes.
	Dial func(ctx context.Context, address string, opts ...locker.Option) (locker.Locker, error)

	// DialClient takes the place of Dial where Harness.OpenClient takes that of
	// Harness.Open.
	DialClient func(ctx context.Context, address string, opts ...locker.Option) (Client, error)

	// Fair: waiters get the lock in the order of their arrival.
	Fair bool

	// Fenced: every lock has a token greater than those of all earlier holders.
	// Not claimed, Token has to be 0.
	Fenced bool

	// Shared: locker.Shared is honoured. Not claimed, it has to be refused with
	// locker.ErrUnsupported.
	Shared bool

	// Permits: locker.Permits is honoured. Not claimed, it has to be refused with
	// locker.ErrUnsupported, and so with the claims that follow.
	Permits bool

	// Downgrade: an exclusive lock can be made a shared one, see locker.Lock.Downgrade.
	Downgrade bool

	// Inspect: locker.Inspect and locker.Names show who holds and waits.
	Inspect bool

	// Evict: locker.Evict takes a name or a place in the queue away.
	Evict bool

	// AtLeast: locker.AtLeast keeps a name taken after its release.
	AtLeast bool

	// Durable: locks and queues survive Harness.Stop and Harness.Start.
	Durable bool

	// TTL is what cases use that wait for a lock to expire: the shortest that the
	// server keeps to. One second if zero.
	TTL time.Duration

	// IdleRate is how many requests a second one waiter may cost the server while
	// nothing happens, beyond what an idle client costs. A half if zero.
	IdleRate float64

	// Private: every harness has a server of its own, so that cases that stop the
	// server or count its requests do not disturb others.
	Private bool

	// RequireAll makes a case fail that could be run and was not: its hook is missing,
	// or the machine was too slow for a verdict.
	RequireAll bool

	// Variant: the suite is run in full on another form of this backend. On this one (another
	// topology, an older server, servers that are away) only the cases that break something or
	// count requests, and those of exclusion, are run, each for one kind of lock, unless
	// LOCKER_CONFORMANCE is "full".
	Variant bool

	// To test the suite:
	oneKind  bool // run each case for one kind
	failOnce bool // end a case with its first failure

	rig  func(Client) Client               // puts a defect into every client, to test the suite
	wrap func(locker.Locker) locker.Locker // and into every Locker
	api  *api                              // and into what package locker offers besides
}

// Harness is one store as one case sees it.
type Harness struct {
	// Open opens one more client of the store.
	Open func(ctx context.Context, opts ...locker.Option) (locker.Locker, error)

	// OpenClient takes the place of Open for locks that are not made by package
	// locker but shall be compared.
	OpenClient func(ctx context.Context, opts ...locker.Option) (Client, error)

	// OpenLink opens a client whose connections to the store can be broken without
	// breaking those of others, by a proxy for instance.
	OpenLink func(ctx context.Context, opts ...locker.Option) (locker.Locker, Link, error)

	// OpenLinkClient takes the place of OpenLink where OpenClient takes that of Open.
	OpenLinkClient func(ctx context.Context, opts ...locker.Option) (Client, Link, error)

	// Address is given to Backend.Dial in another process.
	Address string

	// Destroy removes whatever makes somebody the holder of name, as an operator
	// would do it by hand: all holders, of whatever kind. It is only called while name is
	// held.
	Destroy func(ctx context.Context, name string) error

	// Leftovers lists everything on the server that belongs to locks whose name
	// contains text, in words for people. (The text is letters, digits and "-".)
	// It leaves out what does not grow with the number of names ever used, and what
	// the server will remove by itself without having been asked again.
	Leftovers func(ctx context.Context, text string) ([]string, error)

	// Requests is the number of requests that the server has handled so far.
	Requests func(ctx context.Context) (int64, error)

	// Stop takes the server away without warning, as kill -9 does; Start brings it
	// back and returns when it serves again.
	Stop  func(ctx context.Context) error
	Start func(ctx context.Context) error

	// Misconfigured opens clients that cannot work, by what is wrong with them:
	// "wrong password", "no permission". Either opening or acquiring has to fail
	// with an error that tells.
	Misconfigured map[string]func(ctx context.Context, opts ...locker.Option) (locker.Locker, error)
}

// open opens a client in the way that there is.
func (h *Harness) open(ctx context.Context, opts ...locker.Option) (Client, error) {
	if h.OpenClient != nil {
		return h.OpenClient(ctx, opts...)
	}
	return clientOf(h.Open(ctx, opts...))
}

// openLink opens a client that can be cut off, in the way that there is.
func (h *Harness) openLink(ctx context.Context, opts ...locker.Option) (Client, Link, error) {
	if h.OpenLinkClient != nil {
		return h.OpenLinkClient(ctx, opts...)
	}
	l, link, err := h.OpenLink(ctx, opts...)
	inner, err := clientOf(l, err)
	return inner, link, err
}

// Link breaks the connections of one client.
type Link struct {
	// Freeze: nothing arrives any more on either side, but connections stay open.
	Freeze func()
	// Mute: requests arrive, replies do not.
	Mute func()
	// Cut: connections are closed and new ones refused.
	Cut func()
	// Heal ends all that. Bytes held back may be delivered or their connections
	// closed.
	Heal func()
}

// Client is a locker.Locker as the suite uses it. Only those who want to compare a
// lock of another library implement it; see Harness.OpenClient.
type Client interface {
	Acquire(ctx context.Context, name string, opts ...locker.AcquireOption) (Holding, error)
	TryAcquire(ctx context.Context, name string, opts ...locker.AcquireOption) (Holding, error)
	Close(ctx context.Context) error
}

// Holding is a locker.Lock as the suite uses it.
type Holding interface {
	Name() string
	Token() int64
	Context() context.Context
	Deadline() time.Time
	Release(ctx context.Context) error
}

// Run holds b to the promises. Each case is a subtest, named after its promise.
func Run(t *testing.T, b Backend) {
	t.Helper()
	b.check(t)
	if InChild() {
		obey(t, &b)
	}
	newRunner(&b).all(t)
}

// InChild tells whether this process was started by the suite for one of its cases.
// What is expensive and comes before Run (TestMain, servers) should not be done
// then.
func InChild() bool { return os.Getenv(childEnv) != "" }

func (b *Backend) check(t testing.TB) {
	t.Helper()
	if b.New == nil {
		t.Fatal("conformance: Backend.New is nil")
	}
	if b.TTL == 0 {
		b.TTL = time.Second
	}
	if b.api == nil {
		b.api = soundAPI()
	}
	if b.IdleRate == 0 {
		b.IdleRate = 0.5
	}
	if b.DialClient == nil && b.Dial != nil {
		dial := b.Dial
		b.DialClient = func(ctx context.Context, address string, opts ...locker.Option) (Client, error) {
			return clientOf(dial(ctx, address, opts...))
		}
	}
}

// lockerClient makes a Client of a Locker.
type lockerClient struct{ locker.Locker }

func clientOf(l locker.Locker, err error) (Client, error) {
	if err != nil {
		return nil, err
	}
	return lockerClient{l}, nil
}

func (c lockerClient) Acquire(ctx context.Context, name string, opts ...locker.AcquireOption) (Holding, error) {
	return holdingOf(c.Locker.Acquire(ctx, name, opts...))
}

func (c lockerClient) TryAcquire(ctx context.Context, name string, opts ...locker.AcquireOption) (Holding, error) {
	return holdingOf(c.Locker.TryAcquire(ctx, name, opts...))
}

func holdingOf(l *locker.Lock, err error) (Holding, error) {
	if err != nil || l == nil {
		return nil, err
	}
	return l, nil
}

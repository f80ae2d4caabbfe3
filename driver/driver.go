// Package driver says what a backend of locker has to do.
//
// A driver speaks to one kind of server and does nothing else. Everything that
// is the same for all backends stands in package locker and is not to be
// repeated in a driver: checking arguments, queueing the goroutines of one
// process, holding callers to their context, deciding when to renew and when a
// lock counts as lost, cleaning up after a failure, and closing.
//
// # The life of a claim
//
// The unit of work is a [Claim]: one try to hold one name, with an ID that no
// other try in the world has. The core makes it and then calls, in this order,
//
//	Acquire                         once
//	    granted:     Renew          any number of times, many claims in one call
//	                 Lighten        when the holder needs less than it has
//	                 Release        until it returns nil or ErrGone, for up to five seconds
//	                 or Linger      the same, for a name that has to stay taken, until that time is over, also when a
//	                                claim with Lease was lost before
//	                 or Abandon     when the holding was lost, Release had no answer or was refused
//	    ErrTaken:    nothing more
//	    other error: Abandon        again and again until it returns nil
//
// so that a driver needs no retry loop of its own for cleaning up. It only has
// to say truthfully whether the cleaning up is done.
//
// # The one rule
//
// The server keeps, for each name, one queue of claims in the order of arrival,
// holders included. A claim is granted when its weight and the weights of all
// claims ahead of it are together no more than its limit; see [Fits]. A claim that
// does not wait is granted if that is true of the end of the queue at that moment.
// What is ahead of a claim only shrinks, so a claim that may be granted stays so, and
// nobody is ever overtaken. A limit speaks of what is ahead only: who wants no more than n
// permits in use gives every claim of the name the same n.
//
// # Concurrency
//
// All methods may be called at once from many goroutines, for different claims
// and also for different claims of one name. For one claim: Acquire has
// returned before any other method is called for it; Renew may run at the same
// time as any of the others; Lighten, Release, Linger and Abandon never run at the
// same time. Close is called once, last.
//
// # Contexts
//
// The core never waits longer for a driver than its caller's context allows: it
// runs the call aside, leaves when the context ends, and takes care of the late
// result. A driver therefore passes ctx on to its client library and returns
// soon after ctx has ended if it can; where the library cannot be interrupted
// it may come back later, but it must come back. A driver whose calls always
// return at once when ctx ends says so with [Traits.Prompt].
//
// # Time
//
// All moments are an [Instant] on the [Clock] that the core was built with, so
// that tests can replace it. Durations that only pace work (back-off, polling
// as a fallback) use the time package.
package driver

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"
)

// Driver is one backend.
type Driver interface {
	// Traits says what the backend is and can do. It always answers the same.
	Traits() Traits

	// Acquire tries to take c.Name for c.ID.
	//
	// With c.Wait it queues at the server and blocks until the claim is granted
	// or ctx ends; while servers are away it keeps waiting, and goes on by
	// itself when they return. A waiter is woken by the server and costs it
	// nothing while idle; a slow fallback covers a lost message. It must
	// survive the loss of its place in the queue (its session died, an operator
	// deleted its entry) by queueing anew.
	//
	// An outage is waited out only with c.Wait; an answer that no waiting will
	// mend (wrong password, no permission, a wrong type stored under the key)
	// is returned at once in both cases.
	//
	// Without c.Wait it asks once and returns ErrTaken if the name is not free.
	// ErrTaken promises that nothing was left behind on the server.
	//
	// After any other error the core assumes nothing: the claim may be in the
	// queue or even hold the name. It will call Abandon. An error at the end of
	// ctx should say what the call was held up by, rather than that ctx has
	// ended: the core adds that.
	//
	// A grant must be recognised also when its acknowledgement was lost and the
	// request was repeated: the server's record carries c.ID, so an attempt that
	// finds its own ID has succeeded.
	Acquire(ctx context.Context, c *Claim) (Grant, error)

	// Renew confirms and, where the backend has leases, extends the holdings
	// given, those with the least time left first, with as few requests as the
	// server allows. It calls report at most once for each claim, as soon as its
	// outcome is known, from any one goroutine at a time:
	//
	//	report(c, until, nil)   held; until as in [Grant.Until]
	//	report(c, 0, ErrGone)   the server said that c does not hold its name;
	//	                        the core calls Abandon, in case of a remainder
	//	report(c, 0, err)       not known; the core asks again soon
	//
	// A claim that is not reported counts as not known. Renew must never bring
	// back a holding that is gone. When [Traits.Session] is set it is also called
	// with no claims at all, for the session alone.
	//
	// A claim with [Claim.Lease] is confirmed and never extended; the core does not use
	// its until. Such claims are given only if [Traits.Check] is set. With
	// [Traits.LeaseBySession] they are renewed like all others.
	Renew(ctx context.Context, claims []*Claim, report func(c *Claim, until Instant, err error))

	// Release frees the name if, and only if, c holds it, and wakes the next
	// waiter. It returns nil when c held the name and no longer does, and ErrGone
	// when the server said that c does not hold it. A request repeated because
	// its reply was lost should answer nil, not ErrGone, where the driver can
	// tell. After any other error the core calls it again; the caller is told of
	// one that wraps ErrRefused at once.
	Release(ctx context.Context, c *Claim) error

	// Abandon makes sure that nothing of c is left on the server and that
	// nothing will come of it later: a place in the queue is given up, a holding
	// that nobody knows of is freed and passed on, and a request of c that is
	// still on its way will have no effect when it arrives. It returns nil only
	// when that is so. Calling it again is harmless, also for a claim of which
	// the server never heard, and it never touches another claim.
	Abandon(ctx context.Context, c *Claim) error

	// Close frees what the driver itself opened: connections, sessions, leases,
	// subscriptions, goroutines. All claims have been released or abandoned
	// before, as far as the servers could be reached. It returns by ctx.
	Close(ctx context.Context) error
}

// Inspector shows what the server knows. See [Traits.Inspect].
type Inspector interface {
	// Look returns the claims of name, holders and waiters, in the order of the
	// queue. A name that nobody wants has none. It changes nothing.
	Look(ctx context.Context, name string) ([]Position, error)

	// Names returns the names that begin with prefix and are held or waited for, each
	// once, in any order. It ends with the first error, that of ctx included.
	Names(ctx context.Context, prefix string) iter.Seq2[string, error]
}

// Evictor takes a place in the queue away from its owner. See [Traits.Evict].
type Evictor interface {
	// Evict removes the claim with this ID, and no other, from the queue of name,
	// whoever made it, and passes the name on. It returns ErrGone when the server has
	// no such claim. A holder is told by [Claim.Lost] or its next Renew within a second;
	// a waiter queues anew, at the end.
	Evict(ctx context.Context, name, id string) error
}

// Weigher changes the weight of a holding. See [Traits.Downgrade].
type Weigher interface {
	// Lighten gives c, which holds its name, this smaller weight, and grants the name to
	// those for whom that makes room. The token stays, and c keeps its limit and its place. It
	// returns ErrGone when the server said that c does not hold its name. Calling it
	// again is harmless. Claim.Weight stays as it was.
	Lighten(ctx context.Context, c *Claim, weight int32) error
}

// Lingerer keeps a name taken after its release. See [Traits.Linger].
type Lingerer interface {
	// Linger is Release, but the name stays taken with c's weight for d more, counted by the
	// server from the request. After that the name is passed on as if it had been released
	// then, also if the process that made c lives no longer. Look shows c as a holder meanwhile.
	// Nothing more is called for c after Linger has returned nil or ErrGone, but a Renew that
	// is under way: it must not extend the holding. Who ends the holding in time, the driver
	// or those who wait, is up to the driver.
	Linger(ctx context.Context, c *Claim, d time.Duration) error
}

// Traits are the fixed properties of a backend.
type Traits struct {
	// Backend is the name used in errors: "redis", "etcd".
	Backend string

	// Fair: waiters are granted the lock in the order in which they queued.
	Fair bool

	// Fenced: every Grant has a Token.
	Fenced bool

	// Shared: claims of weight 1 and limit All are understood. Without it the core
	// refuses them and the driver never sees one.
	Shared bool

	// Permits: claims of any weight and limit are understood.
	Permits bool

	// Inspect: the driver is an [Inspector].
	Inspect bool

	// Evict: the driver is an [Evictor].
	Evict bool

	// Downgrade: the driver is a [Weigher].
	Downgrade bool

	// Linger: the driver is a [Lingerer].
	Linger bool

	// Session: holdings live as long as one session, which has to be renewed
	// also while nothing is held. The core then calls Renew from the first
	// Acquire until Close.
	Session bool

	// Prompt: every call returns at once when its ctx ends, so that the core
	// may make it on the caller's own goroutine.
	Prompt bool

	// LeaseBySession: a claim with [Claim.Lease] too is held for as long as the
	// session lives, because the server knows no other end. Grant.Until is then
	// that of the session, the core renews the claim like any other, and when the
	// time of the lease is over it abandons it.
	LeaseBySession bool

	// Check, if not zero, is how often Renew is to be called at least, for
	// backends that learn only by asking that a holding was destroyed behind
	// its back. As long as a call goes on reporting claims, the next waits for
	// its return. Backends that are told by the server (by a watch) call
	// [Claim.Lost] instead and leave it zero.
	Check time.Duration
}

// All is the weight and the limit of an exclusive claim, and the limit of a shared one.
const All int32 = math.MaxInt32

// Fits reports whether a claim is granted behind claims of that weight together.
func Fits(ahead int64, weight, limit int32) bool {
	return ahead+int64(weight) <= int64(limit)
}

// Claim is one try to hold one name. The core fills it in and never changes it
// afterwards, and never uses it twice.
type Claim struct {
	// Name is any non-empty string of up to 1,024 bytes, not necessarily UTF-8.
	Name string

	// ID is unique to this claim: 32 lower-case hexadecimal digits.
	ID string

	// Owner is text for operators, stored beside the lock. Any bytes, up to 1,024.
	Owner string

	// Weight and Limit say what can hold the name at the same time, see "The one rule":
	// All and All for an exclusive claim, 1 and All for a shared one, k and n for k of
	// n permits.
	Weight, Limit int32

	// Spare is how many tokens above the one granted the core could use to pass the
	// holding on within the process. Fewer may be given, or none.
	Spare int32

	// TTL is how long after its holder died the name may stay taken.
	TTL time.Duration

	// Lease: the holding ends by itself TTL after it was granted and is not to
	// be renewed; but see [Traits.LeaseBySession].
	Lease bool

	// Wait: queue and wait rather than answer ErrTaken.
	Wait bool

	// Lost tells the core that the holding is gone although its time is not
	// over (a watch fired, the session expired). It may be called from any
	// goroutine, at any time from Acquire on, also before Acquire has returned
	// the grant and after the claim has ended; it never blocks.
	Lost func(reason error)

	// Wanted tells the core that, while this claim holds the name, another waits for
	// it. It is a hint, which may come late, more than once or never. It may be called
	// when Lost may be, and never blocks.
	Wanted func()

	// State is the driver's own. It is set in Acquire at the latest and may be read in
	// every later call for the claim.
	State any
}

// Grant is the answer to a successful Acquire.
type Grant struct {
	// Token is greater than zero and, with the tokens of Spare, strictly greater than
	// those of every earlier holding of the name that could not overlap with this one,
	// also when exclusion was violated. Zero if the backend is not Fenced.
	Token int64

	// Spare is how many tokens above Token no other grant of the name will get: those
	// of later grants exceed Token + Spare. At most Claim.Spare.
	Spare int64

	// Until is the first moment at which the server may give the name to
	// another if it hears nothing more from this holder. It is counted from a
	// moment that is certainly not later than the one at which the server began
	// to count: as a rule, from just before the request was sent that the
	// server has acknowledged. What is uncertain about a particular backend (a
	// tick, a clock estimate) is already taken off; the margin for clocks that
	// run at slightly different rates is taken off by the core.
	Until Instant
}

// Position is one claim in the queue of a name, as [Inspector.Look] shows it.
type Position struct {
	// Name, ID, Owner, Weight and Limit are those of the claim; Weight is what the holder
	// has now, see [Weigher].
	Name, ID, Owner string
	Weight, Limit   int32

	// Held: it holds the name. Otherwise it waits.
	Held bool

	// Token is the holder's, zero for one that waits. Where a lock was handed over in its
	// process it is that of the first who held it.
	Token int64

	// Since is when it was granted or, if it waits, when it joined the queue, on the
	// server's clock as far as the server tells. Zero if it is not known.
	Since time.Time

	// Left is for how long the server will keep it, if it hears nothing more of it.
	// Zero if that is not known.
	Left time.Duration
}

// Kind returns what the claim asks for in words: "exclusive", "shared", "2 of 5 permits".
func (p Position) Kind() string {
	switch {
	case p.Limit != All:
		return fmt.Sprintf("%d of %d permits", p.Weight, p.Limit)
	case p.Weight == All:
		return "exclusive"
	}
	return "shared"
}

var (
	// ErrTaken is returned by Acquire without Wait when the name is not free.
	ErrTaken = errors.New("driver: taken")

	// ErrGone is returned or reported when the server said that the claim does
	// not hold its name.
	ErrGone = errors.New("driver: not held")

	// ErrRefused is wrapped in errors that no repetition will mend: the server does not
	// permit the request, or something of another kind is stored under the key.
	ErrRefused = errors.New("refused")
)

// Instant is a moment on a Clock, in nanoseconds from an origin that only has a
// meaning on that clock.
type Instant int64

// Add returns the moment d later.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Sub returns the time from j to i.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i - j) }

// Clock tells the time. It never goes back and counts the time during which the
// machine was suspended, where the system can tell.
type Clock interface {
	Now() Instant
}

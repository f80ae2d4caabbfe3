// Package sqlqueue is what the backends on databases share: when a claim asks, what follows from the answers, and how
// waiters are told news. The queue itself is in tables of the server, and each request is one call of a
// procedure there; a [Server] sends it.
package sqlqueue

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/servertime"
	"github.com/seed80cd6120/locker/internal/underway"
)

const (
	// Fresh is for how long a request that takes something is meant, and how long an answer is waited for. The
	// network may keep a request for longer; the server refuses it then.
	Fresh = 5 * time.Second
	// Brief is how long an answer is waited for without which things go on as before.
	Brief = 500 * time.Millisecond
	// CheckEvery is how soon a holder learns that its row was deleted by hand.
	CheckEvery = 750 * time.Millisecond
	// sweepEvery is how often a Locker that is used removes what others left behind who are gone.
	sweepEvery = time.Minute
	// AtOnce is how many claims a request changes at most. PostgreSQL keeps 8 KB of an answer until it has
	// committed; it sends what is more before, with the rows locked.
	AtOnce = 100
)

// Server sends requests to a database. Each of them may be sent more than once. lost says that the server may
// have heard of a request without having answered.
type Server interface {
	// Acquire asks for the name of c; if c waits, it joins the queue if there is no room. stamp is called before each sending and
	// returns what the answer has as Sent, and until when, by the server's time, the request may have an effect. listener is
	// the number by which somebody is told news of c, 0 if nobody is.
	Acquire(ctx context.Context, c *Claim, listener int64, stamp func() (driver.Instant, int64)) (a Answer, lost bool, err error)
	// End removes what there is of a claim, or keeps the name taken for d more. The answer is 1 if it held.
	End(ctx context.Context, c *Claim, d time.Duration) (answer int, lost bool, err error)
	// Lighten gives a claim that holds another weight, and reports whether it holds.
	Lighten(ctx context.Context, c *driver.Claim, weight int32) (held bool, err error)
	// Renew renews claims, only confirms those with a lease, and returns those that hold, by ID. It calls stamp before each sending.
	Renew(ctx context.Context, claims []*driver.Claim, stamp func()) (map[string]Holding, error)
	// Names returns the names of which there are claims.
	Names(ctx context.Context, prefix string) ([]string, error)
	// Evict ends a claim; the answer is 0 if there is no such.
	Evict(ctx context.Context, name, id string) (answer int, lost bool, err error)
	// Sweep removes what those left behind who are gone.
	Sweep(ctx context.Context)
	// Listen tells l what the server says of claims that wait, until ctx ends or there is an error. It wraps ErrCannotListen if waiters
	// have to ask instead.
	Listen(ctx context.Context, l *Listener) error
	// Poll asks once what is new of claims that wait, and tells l.
	Poll(ctx context.Context, l *Listener)
	// Transient reports whether it makes sense to wait until err goes away by itself.
	Transient(err error) bool
}

// Claim is what is known of a claim here.
type Claim struct {
	*driver.Claim
	// LateUntil is until when, by the server's time, a request that had no answer may have an effect, or 0.
	LateUntil int64

	touched bool // the server may know of it
	unsure  bool // a request to release it had no answer

	// While it waits, guarded by Listener.mu:
	tell   func(Event) // called with news
	queued bool        // the server has said that it is in the queue
	told   bool        // of something, since it asked last
}

func at(c *driver.Claim) *Claim { return c.State.(*Claim) }

// Answer is what the server said to a request to acquire.
type Answer struct {
	State    string         // "granted", "waits", "taken", "given up", or another if it came late
	Sent     driver.Instant // before the request was
	Now      int64          // the server's time in microseconds
	Token    int64
	Spare    int64
	FirstEnd time.Duration // nothing that the claim waits for ends before by itself
	First    bool          // no other waits before it
}

// Holding is what the server said of a claim that holds.
type Holding struct {
	Left   time.Duration
	Wanted bool
}

// Queue is the part of a driver that claims go through.
type Queue struct {
	server  Server
	clock   driver.Clock
	time    *servertime.Guess
	news    *Listener
	swept   atomic.Int64 // when it was swept last, on the clock
	working underway.Group
	life    context.Context
	die     context.CancelFunc
}

// New returns a Queue whose waiters are told news, or ask every so often, together, if poll is not zero.
func New(server Server, clock driver.Clock, poll time.Duration) *Queue {
	q := &Queue{server: server, clock: clock, time: servertime.New(clock)}
	q.life, q.die = context.WithCancel(context.Background())
	q.news = &Listener{q: q, pollEvery: poll, claims: make(map[string]*Claim)}
	return q
}

// Close ends the connection that listens and what runs in the background.
func (q *Queue) Close(ctx context.Context) error {
	q.die()
	select {
	case <-q.working.None():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the client still hangs in a call: %w", ctx.Err())
	}
}

// sweep removes now and then what those left behind who are gone.
func (q *Queue) sweep() {
	now, last := int64(q.clock.Now()), q.swept.Load()
	if last != 0 && now-last < int64(sweepEvery) || !q.swept.CompareAndSwap(last, now) {
		return
	}
	q.working.Go(func() { q.server.Sweep(q.life) })
}

// Release implements [driver.Driver].
func (q *Queue) Release(ctx context.Context, c *driver.Claim) error { return q.Linger(ctx, c, 0) }

// Linger implements [driver.Lingerer].
func (q *Queue) Linger(ctx context.Context, dc *driver.Claim, d time.Duration) error {
	c := at(dc)
	answer, lost, err := q.server.End(ctx, c, d)
	c.unsure = c.unsure || lost
	switch {
	case err != nil:
		return err
	case answer != 1 && !c.unsure:
		return driver.ErrGone
	}
	return nil
}

// Abandon implements [driver.Driver].
func (q *Queue) Abandon(ctx context.Context, dc *driver.Claim) error {
	c := at(dc)
	if !c.touched {
		return nil
	}
	_, _, err := q.server.End(ctx, c, 0)
	return err
}

// Lighten implements [driver.Weigher].
func (q *Queue) Lighten(ctx context.Context, c *driver.Claim, weight int32) error {
	held, err := q.server.Lighten(ctx, c, weight)
	if err == nil && !held {
		err = driver.ErrGone
	}
	return err
}

// Renew implements [driver.Driver]: one request after the other, until one fails.
func (q *Queue) Renew(ctx context.Context, claims []*driver.Claim, report func(*driver.Claim, driver.Instant, error)) {
	var err error
	for some := range slices.Chunk(claims, AtOnce) {
		var sent driver.Instant
		var held map[string]Holding
		if err == nil {
			held, err = q.server.Renew(ctx, some, func() { sent = q.clock.Now() })
		}
		for _, c := range some {
			h, ok := held[c.ID]
			switch {
			case err != nil:
				report(c, 0, err)
			case !ok:
				report(c, 0, driver.ErrGone)
			default:
				report(c, sent.Add(min(h.Left, c.TTL)), nil)
				if h.Wanted && c.Wanted != nil {
					c.Wanted()
				}
			}
		}
	}
}

// Names implements [driver.Inspector].
func (q *Queue) Names(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		all, err := q.server.Names(ctx, prefix)
		if err != nil {
			yield("", err)
			return
		}
		for _, name := range all {
			if !yield(name, nil) {
				return
			}
		}
	}
}

// Evict implements [driver.Evictor].
func (q *Queue) Evict(ctx context.Context, name, id string) error {
	if b, err := hex.DecodeString(id); err != nil || len(b) != 16 {
		return driver.ErrGone // nobody's
	}
	answer, lost, err := q.server.Evict(ctx, name, id)
	if err == nil && answer == 0 && !lost {
		err = driver.ErrGone
	}
	return err
}

// mostPolling keeps waiters that ask from losing their places: the server keeps one without a sign of life for a second at least.
const mostPolling = 500 * time.Millisecond

// CheckPolling returns an error if waiters that ask so rarely could lose their places in between.
func CheckPolling(every time.Duration) error {
	if every <= 0 || every > mostPolling {
		return fmt.Errorf("polling every %v, want more than 0 and at most %v", every, mostPolling)
	}
	return nil
}

// Millis returns d in milliseconds, rounded up.
func Millis(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

// Reword returns err with another text.
func Reword(err error, text string) error { return &reworded{err, text} }

type reworded struct {
	err  error
	text string
}

func (r *reworded) Error() string { return r.text }
func (r *reworded) Unwrap() error { return r.err }

// ErrNoAnswer says that the server has not answered within Fresh.
var ErrNoAnswer = errors.New("no answer in time")

// Limit calls send with a context that ends after Fresh. It returns ErrNoAnswer, rather than that a context has ended, if it was
// not ctx that did.
func Limit(ctx context.Context, send func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, Fresh)
	defer cancel()
	err := send(limited)
	if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %v", ErrNoAnswer, err)
	}
	return err
}

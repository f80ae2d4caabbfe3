package conformance

import (
	"math/rand/v2"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed80cd6120/locker"
	clock "github.com/seed80cd6120/locker/internal/stamp"
)

// stamp is a moment on a clock that all processes of this machine share.
func stamp() int64 { return clock.Now() }

// watch looks at a lock's context again and again and remembers the beginning of
// the last look that found it alive. A later holder whose Acquire had returned by
// then proves an overlap, whatever the machine's clocks and delays.
type watch struct {
	c     *C
	lock  Holding
	alive atomic.Int64 // stamp
	ended chan struct{}
	cause error
}

func (c *C) watch(h Holding) *watch {
	w := &watch{c: c, lock: h, ended: make(chan struct{})}
	go func() {
		ctx := h.Context()
		for {
			begun := stamp()
			if ctx.Err() != nil {
				w.cause = cause(h)
				close(w.ended)
				return
			}
			w.alive.Store(begun)
			if c.ctx.Err() != nil {
				return
			}
			time.Sleep(500 * time.Microsecond)
		}
	}()
	return w
}

// lostWithin fails the case unless the lock is lost within d, and says so.
func (w *watch) lostWithin(d time.Duration, after string) {
	c := w.c
	c.tb.Helper()
	start := time.Now()
	if !c.closes(w.ended, d) {
		took := time.Since(start)
		c.closes(w.ended, serverLate)
		if !isClosed(w.ended) {
			c.fatalf("the context of %q is alive %v after %s", w.lock.Name(), time.Since(start).Round(time.Millisecond), after)
		}
		c.lateBy(time.Since(start)-took, "the context of %q was alive %v after %s", w.lock.Name(), took.Round(time.Millisecond), after)
	}
	c.expect(w.cause, locker.ErrLost, "the cause of the context of %q after %s", w.lock.Name(), after)
}

// before fails the case unless the lock's context had ended when the successor's
// Acquire returned, at the moment granted.
func (w *watch) before(granted int64) {
	c := w.c
	c.tb.Helper()
	overlap := func() bool { return w.alive.Load() > granted }
	c.within(soon, func() bool { return overlap() || isClosed(w.ended) })
	if overlap() {
		c.proven("the context of %q was alive %v after the next holder had been granted the lock",
			w.lock.Name(), time.Duration(w.alive.Load()-granted))
	} else if !isClosed(w.ended) {
		c.errorf("the context of %q does not end, although there is another holder", w.lock.Name())
	}
}

// looksTell fails the case if a look at ctx that begins when a lease of shortLease that was granted
// by now is over finds it alive.
func (c *C) looksTell(ctx interface{ Err() error }) {
	c.tb.Helper()
	over := stamp() + int64(shortLease)
	time.Sleep(shortLease * 3 / 4) // what a look before the end finds shows nothing
	for {
		begun := stamp()
		if ctx.Err() != nil {
			return
		}
		if begun > over {
			c.fatalf("alive %v after the end of its lease", time.Duration(begun-over))
		}
	}
}

// rises fails the case unless the tokens of holdings, which may overlap, are all greater than those that it
// has been given before. It returns the first.
func (c *C) rises(holdings ...Holding) Holding {
	c.tb.Helper()
	var tokens []int64
	for _, h := range holdings {
		tokens = append(tokens, h.Token())
	}
	c.tokensRise(tokens...)
	return holdings[0]
}

// tokensRise is rises for tokens. Where none are claimed it says nothing.
func (c *C) tokensRise(tokens ...int64) {
	c.tb.Helper()
	if c.b.Fenced && slices.Min(tokens) <= c.token {
		c.proven("tokens %d after %d", tokens, c.token)
	}
	c.token = max(c.token, slices.Max(tokens))
}

// span is a time during which somebody certainly held a lock: both ends were
// read while its context was alive.
type span struct {
	Begin, End int64
	Token      int64
	Who        int

	weight, limit int64 // see record.addKind
}

// record collects the spans of one name.
type record struct {
	mu    sync.Mutex
	spans []span
}

// add looks at the context last: a lock that is alive then was held all the time.
func (r *record) add(who int, h Holding, begin int64) { r.addKind(who, h, begin, 0, 0) }

// addKind is add for k of n permits; with an n of 0 for a shared holding if k is 1, and for
// an exclusive one if it is 0.
func (r *record) addKind(who int, h Holding, begin int64, k, n int) {
	s := span{Begin: begin, End: stamp(), Token: h.Token(), Who: who, weight: int64(k), limit: int64(n)}
	if h.Context().Err() != nil {
		return
	}
	r.mu.Lock()
	r.spans = append(r.spans, s)
	r.mu.Unlock()
}

func (r *record) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.spans)
}

// check fails the case if an exclusive span overlaps any other, if those that overlap have more permits
// together than there are, or if tokens of exclusive spans are not in order.
func (r *record) check(c *C, name string) {
	c.tb.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	sort.Slice(r.spans, func(i, j int) bool { return r.spans[i].Begin < r.spans[j].Begin })
	var held []span
	var last int64 // token of an exclusive span
	for _, s := range r.spans {
		held = slices.DeleteFunc(held, func(h span) bool { return h.End <= s.Begin })
		permits := s.weight
		for _, h := range held {
			if h.weight == 0 || s.weight == 0 {
				c.proven("%q was held exclusively, and by another: %d and %d, for %v",
					name, h.Who, s.Who, time.Duration(min(h.End, s.End)-s.Begin))
				return
			}
			if h.limit > 0 {
				permits += h.weight
			}
		}
		if s.limit > 0 && permits > s.limit {
			c.proven("%d of %d permits of %q were held at once", permits, s.limit, name)
			return
		}
		held = append(held, s)
		if s.weight == 0 {
			if c.b.Fenced && s.Token <= last {
				c.proven("token %d of %q after token %d of an earlier holder", s.Token, name, last)
				return
			}
			last = s.Token
		}
	}
}

// enough is how many acquisitions are needed to say something about exclusion.
const enough = 10

// contest has goroutines of each client take a turn with the name of the case again and again for d, or for
// longer on a machine that is slow, and checks what they add to the record. Then the name must be free.
func (c *C) contest(d time.Duration, clients []*client, goroutines int, turn func(cl *client, who int, rec *record)) {
	c.tb.Helper()
	var rec record
	end := time.Now().Add(d)
	together(len(clients)*goroutines, func(who int) {
		for (time.Now().Before(end) || rec.count() < enough) && c.ctx.Err() == nil {
			turn(clients[who/goroutines], who, &rec)
		}
	})
	rec.check(c, c.x)
	c.open().free(c.x, soon)
}

// hold acquires with opts, holds for a moment, and records that, with a weight and a limit as addKind has them.
func (c *C) hold(cl *client, who int, rec *record, k, n int, opts ...locker.AcquireOption) {
	c.tb.Helper()
	h := cl.acquire(c.x, opts...)
	begin := stamp()
	time.Sleep(rand.N(500 * time.Microsecond))
	rec.addKind(who, h, begin, k, n)
	c.release(h)
}

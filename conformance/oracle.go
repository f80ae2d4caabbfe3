package conformance

import (
	"context"
	"errors"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed80cd6120/locker"
)

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
				w.cause = context.Cause(ctx)
				close(w.ended)
				return
			}
			w.alive.Store(begun)
			select {
			case <-c.ctx.Done():
				return
			case <-time.After(500 * time.Microsecond):
			}
		}
	}()
	return w
}

// lostWithin fails the case unless the lock is lost within d, and says so.
func (w *watch) lostWithin(d time.Duration, after string) {
	c := w.c
	c.tb.Helper()
	start := time.Now()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-w.ended:
	case <-t.C:
		late := c.late.Slack(start)
		select {
		case <-w.ended:
		case <-time.After(late):
			c.fatalf("the context of %q is alive %v after %s", w.lock.Name(), time.Since(start).Round(time.Millisecond), after)
		}
	}
	if !errors.Is(w.cause, locker.ErrLost) {
		c.errorf("the context of %q ended after %s with cause %q, want ErrLost", w.lock.Name(), after, w.cause)
	}
}

// ends waits until the lock's context is done.
func (c *C) ends(h Holding, after string) {
	c.tb.Helper()
	t := time.NewTimer(soon)
	defer t.Stop()
	select {
	case <-h.Context().Done():
		return
	case <-t.C:
	case <-c.ctx.Done():
	}
	c.fatalf("the context of %q does not end after %s", h.Name(), after)
}

// before fails the case unless the lock's context had ended when the successor's
// Acquire returned, at the moment granted.
func (w *watch) before(granted int64) {
	c := w.c
	c.tb.Helper()
	overlap := func() bool { return w.alive.Load() > granted }
	ended := func() bool {
		select {
		case <-w.ended:
			return true
		default:
			return false
		}
	}
	c.within(soon, func() bool { return overlap() || ended() })
	if overlap() {
		c.errorf("the context of %q was alive %v after the next holder had been granted the lock",
			w.lock.Name(), time.Duration(w.alive.Load()-granted))
	} else if !ended() {
		c.errorf("the context of %q does not end, although there is another holder", w.lock.Name())
	}
}

// span is a time during which somebody certainly held a lock: both ends were
// read while its context was alive.
type span struct {
	Begin, End int64
	Token      int64
	Who        int

	weight, limit int64 // 0 and 0 for an exclusive holding
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

// check fails the case if two spans overlap, or if tokens are not in order.
func (r *record) check(c *C, name string) {
	c.tb.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	sort.Slice(r.spans, func(i, j int) bool { return r.spans[i].Begin < r.spans[j].Begin })
	for i := 1; i < len(r.spans); i++ {
		a, b := r.spans[i-1], r.spans[i]
		if b.Begin < a.End {
			c.errorf("two holders of %q at once: %d and %d, for %v", name, a.Who, b.Who, time.Duration(min(a.End, b.End)-b.Begin))
			return
		}
		if c.b.Fenced && b.Token <= a.Token {
			c.errorf("token %d of %q after token %d of an earlier holder", b.Token, name, a.Token)
			return
		}
	}
}

// checkKinds fails the case if an exclusive span overlaps any other, or if those that overlap
// have more permits together than there are.
func (r *record) checkKinds(c *C, name string) {
	c.tb.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	sort.Slice(r.spans, func(i, j int) bool { return r.spans[i].Begin < r.spans[j].Begin })
	var held []span
	for _, s := range r.spans {
		held = slices.DeleteFunc(held, func(h span) bool { return h.End <= s.Begin })
		permits := s.weight
		for _, h := range held {
			if h.weight == 0 || s.weight == 0 {
				c.errorf("%q was held exclusively, and by another: %d and %d, for %v", name, h.Who, s.Who, time.Duration(min(h.End, s.End)-s.Begin))
				return
			}
			if h.limit > 0 {
				permits += h.weight
			}
		}
		if s.limit > 0 && permits > s.limit {
			c.errorf("%d of %d permits of %q were held at once", permits, s.limit, name)
			return
		}
		held = append(held, s)
	}
}

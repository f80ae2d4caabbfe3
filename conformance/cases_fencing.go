package conformance

import (
	"sync"
	"time"

	"github.com/seed80cd6120/locker"
)

var fencingCases = []*testCase{
	{
		name: "Fencing/OneLocker", promise: 2, needs: fenced,
		says: "Token is strictly greater than that of every earlier holder of the name.",
		run: func(c *C) {
			l, name := c.open(), c.name("x")
			var t tokens
			for range 100 {
				h := l.acquire(name)
				t.next(c, h)
				c.release(h)
			}
		},
	},
	{
		name: "Fencing/ManyLockers", promise: 2, needs: fenced, kinds: aloneKinds,
		says: "Token is strictly greater than that of every earlier holder of the name, whoever that was and however it got the lock.",
		run: func(c *C) {
			name := c.name("x")
			ls := []*client{c.open(), c.open(), c.open()}
			var t tokens
			for i := range 6 {
				h := ls[i%3].acquire(name, c.own...)
				t.next(c, h)
				p := ls[(i+1)%3].queue(name, c.own...)
				c.release(h)
				h = p.held(soon)
				t.next(c, h)
				c.release(h)
				h, err := ls[(i+2)%3].try(name, c.own...)
				if err == nil {
					t.next(c, h)
					c.release(h)
				}
			}
		},
	},
	{
		name: "Fencing/Contended", promise: 2, needs: fenced,
		says: "Tokens rise in the order of the holdings, also when many want the name.",
		run:  func(c *C) { c.contend(4, 3, 500*time.Millisecond, false) },
	},
	{
		name: "Fencing/AfterDestroy", promise: 2, needs: fenced | destroy, kinds: allKinds,
		says: "Token is strictly greater than that of every earlier holder, also when exclusion was lost: the lock was deleted by hand.",
		run: func(c *C) {
			name := c.name("x")
			a, b := c.open(), c.open()
			var t tokens
			for range 3 {
				h := a.acquire(name, c.own...)
				t.next(c, h)
				c.destroy(name)
				second := b.acquire(name, c.other...)
				t.next(c, second)
				_ = h.Release(c.ctx)
				c.release(second)
			}
		},
	},
	{
		name: "Fencing/AfterExpiry", promise: 2, needs: fenced, kinds: allKinds,
		says: "Token is strictly greater than that of every earlier holder, also of one whose lease ran out.",
		run: func(c *C) {
			name := c.name("x")
			a, b := c.open(), c.open()
			var t tokens
			t.next(c, a.acquire(name, c.own.with(locker.WithLease(c.b.TTL))...))
			h := b.acquire(name, c.other...)
			t.next(c, h)
			c.release(h)
		},
	},
	{
		name: "Fencing/AfterTakeover", promise: 2, needs: fenced | link, kinds: allKinds,
		says: "Token is strictly greater than that of every earlier holder, also of one that was cut off.",
		run: func(c *C) {
			name := c.name("x")
			a, b := c.openLink(locker.WithTTL(c.b.TTL)), c.open()
			var t tokens
			t.next(c, a.acquire(name, c.own...))
			a.link.Freeze()
			h := b.acquire(name, c.other...)
			t.next(c, h)
			c.release(h)
			a.link.Heal()
			h = a.acquire(name, c.own...)
			t.next(c, h)
			c.release(h)
		},
	},
	{
		name: "Fencing/AfterRestart", promise: 2, needs: fenced | stop, alone: true,
		says: "Token is strictly greater than that of every earlier holder, also when the server was restarted, with its data or without.",
		run: func(c *C) {
			name := c.name("x")
			a := c.open()
			var t tokens
			for range 20 {
				h := a.acquire(name)
				t.next(c, h)
				c.release(h)
			}
			c.restart()
			h := a.acquire(name)
			t.next(c, h)
			c.release(h)
			b := c.open()
			h = b.acquire(name)
			t.next(c, h)
			c.release(h)
		},
	},
	{
		name: "Fencing/Steady", promise: 2, needs: fenced,
		says: "Token is one number for one holding, from its acquisition on and after its end.",
		run: func(c *C) {
			l := c.open(locker.WithTTL(c.b.TTL))
			h := l.acquire(c.name("x"))
			first := h.Token()
			time.Sleep(c.b.TTL) // over renewals
			if t := h.Token(); t != first {
				c.errorf("token %d became %d", first, t)
			}
			_ = h.Release(c.ctx)
			if t := h.Token(); t != first {
				c.errorf("token %d became %d at the release", first, t)
			}
		},
	},
	{
		name: "Fencing/Distinct", promise: 2, needs: fenced,
		says: "No token is given twice for one name, even to Lockers that all try at the same moment.",
		run: func(c *C) {
			name := c.name("x")
			var mu sync.Mutex
			seen := make(map[int64]bool)
			var wg sync.WaitGroup
			for range 6 {
				l := c.open()
				wg.Go(func() {
					for range 15 {
						h := l.acquire(name)
						t := h.Token()
						mu.Lock()
						if seen[t] {
							c.errorf("token %d was given twice", t)
						}
						seen[t] = true
						mu.Unlock()
						c.release(h)
					}
				})
			}
			wg.Wait()
		},
	},
	{
		name: "Fencing/Unclaimed", promise: 2, needs: unfenced,
		says: "A backend that offers no fencing has the token 0, so that nobody takes it for one.",
		run: func(c *C) {
			h := c.open().acquire(c.name("x"))
			if h.Token() != 0 {
				c.errorf("token %d, although the backend does not claim Fenced", h.Token())
			}
			c.release(h)
		},
	},
}

// tokens checks that each is greater than the one before.
type tokens struct{ last int64 }

func (t *tokens) next(c *C, h Holding) {
	c.tb.Helper()
	if got := h.Token(); got <= t.last {
		c.errorf("token %d of %q after %d", got, h.Name(), t.last)
	}
	t.last = max(t.last, h.Token())
}

func (c *C) destroy(name string) {
	c.tb.Helper()
	if err := c.h.Destroy(c.ctx, name); err != nil {
		c.fatalf("Destroy %q: %v", name, err)
	}
}

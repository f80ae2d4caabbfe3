package conformance

import (
	"slices"
	"sync"
	"time"

	"github.com/seed80cd6120/locker"
)

var sharedCases = []*testCase{
	{
		name: "Shared/Refused", promise: 1, needs: unshareable,
		says: "A backend that does not offer shared locks refuses them with ErrUnsupported and takes nothing.",
		run:  func(c *C) { c.refused(locker.Shared()) },
	},
	{
		name: "Shared/Together", promise: 1, needs: shareable,
		says: "A shared lock is held together with other shared ones, also of other Lockers.",
		run: func(c *C) {
			name := c.name("x")
			a, b := c.open(), c.open()
			var held []Holding
			for _, l := range []*client{a, b, a, b} {
				held = append(held, l.acquire(name, locker.Shared()))
			}
			h, err := a.try(name, locker.Shared())
			if err != nil {
				c.fatalf("TryAcquire: %v", err)
			}
			for _, h := range append(held, h) {
				c.alive(h, "among others")
				c.release(h)
			}
			a.free(name, soon)
		},
	},
	{
		name: "Shared/Many", promise: 1, needs: shareable,
		says: "Any number of shared ones hold a name at once, and whoever wants it alone gets it after the last.",
		run: func(c *C) {
			const n = 64
			name := c.name("x")
			ls := make([]*client, 8)
			for i := range ls {
				ls[i] = c.open()
			}
			held := make([]Holding, n)
			each(n, func(i int) { held[i] = ls[i%len(ls)].acquire(name, locker.Shared()) })
			p := c.open().queue(name)
			for i, h := range held {
				c.alive(h, "among many")
				if p.finished() {
					c.fatalf("exclusive beside %d shared: %v", n-i, p.err)
				}
				c.release(h)
			}
			c.release(p.held(soon))
		},
	},
	{
		name: "Shared/OneLocker", promise: 10, needs: shareable,
		says: "Readers of one Locker hold together, also if they come while somebody else holds the name.",
		run: func(c *C) {
			const n = 8
			name := c.name("x")
			h := c.open().acquire(name)
			l := c.open()
			var readers []*pending
			for range n {
				readers = append(readers, l.begin(c.ctx, name, locker.Shared()))
			}
			c.settle()
			c.release(h)
			var held []Holding
			for _, p := range readers {
				held = append(held, p.held(soon)) // none is released before all are there
			}
			for _, h := range held {
				c.alive(h, "among others")
				c.release(h)
			}
		},
	},
	{
		name: "Shared/AgainstExclusive", promise: 1, needs: shareable,
		says: "A shared lock and an exclusive one never overlap.",
		run: func(c *C) {
			name := c.name("x")
			a, b := c.open(), c.open()
			one, two := a.acquire(name, locker.Shared()), b.acquire(name, locker.Shared())
			b.taken(name)
			p := b.queue(name)
			c.release(one)
			time.Sleep(100 * time.Millisecond)
			if p.finished() {
				c.errorf("exclusive beside shared: %v", p.err)
			}
			c.release(two)
			h := p.held(soon)
			a.taken(name, locker.Shared())
			q := a.queue(name, locker.Shared())
			time.Sleep(100 * time.Millisecond)
			if q.finished() {
				c.errorf("shared beside exclusive: %v", q.err)
			}
			c.release(h)
			c.release(q.held(soon))
		},
	},
	{
		name: "Shared/ExclusiveDoesNotStarve", promise: 9, needs: shareable | fair,
		says: "Shared ones that come later do not overtake an exclusive one that waits.",
		run: func(c *C) {
			name := c.name("x")
			a, b, third := c.open(), c.open(), c.open()
			c.mostly("shared ones overtook an exclusive one", func() bool {
				h := a.acquire(name, locker.Shared())
				p := b.queue(name)
				got, err := third.try(name, locker.Shared())
				if err == nil {
					c.release(got)
				}
				c.release(h)
				c.release(p.held(soon))
				return err != nil
			})
		},
	},
	{
		name: "Shared/WritersServed", promise: 9, needs: shareable | fair,
		says: "A writer among readers that come and go is served in its turn.",
		run: func(c *C) {
			name := c.name("x")
			stop := make(chan struct{})
			var wg sync.WaitGroup
			var mu sync.Mutex
			readers := 0
			leave := func(least int) bool {
				mu.Lock()
				defer mu.Unlock()
				left := readers >= least
				if left {
					readers--
				}
				return left
			}
			for range 4 {
				l := c.open()
				wg.Go(func() {
					for c.ctx.Err() == nil {
						h := l.acquire(name, locker.Shared())
						mu.Lock()
						readers++
						mu.Unlock()
						// Each leaves behind another, as long as others come at all.
						if !c.within(20*time.Millisecond, func() bool { return leave(2) }) {
							leave(1)
						}
						c.release(h)
						select {
						case <-stop:
							return
						default:
						}
					}
				})
			}
			writer := c.open()
			for range 5 {
				c.release(writer.begin(c.ctx, name).held(soon))
			}
			close(stop)
			wg.Wait()
		},
	},
	{
		name: "Shared/Fencing", promise: 2, needs: shareable | fenced,
		says: "An exclusive holding has a greater token than all before it, and a lower one than all after it; between shared ones that may overlap tokens say nothing.",
		run: func(c *C) {
			name := c.name("x")
			a, b := c.open(), c.open()
			var t tokens
			for range 5 {
				one, two := a.acquire(name, locker.Shared()), b.acquire(name, locker.Shared())
				t.above(c, one, two)
				p := b.queue(name)
				c.release(two)
				c.release(one)
				h := p.held(soon)
				t.next(c, h)
				q := a.queue(name, locker.Shared())
				c.release(h)
				h = q.held(soon)
				t.next(c, h)
				c.release(h)
			}
		},
	},
	{
		name: "Shared/Loss", promise: 3, needs: shareable,
		says: "A shared lock whose lease is over is lost before an exclusive one is granted.",
		run: func(c *C) {
			name := c.name("x")
			w := c.watch(c.open().acquire(name, locker.Shared(), locker.WithLease(c.b.TTL)))
			p := c.open().queue(name)
			h := p.held(c.b.TTL + soon)
			w.before(p.stamp)
			c.release(h)
		},
	},
	{
		name: "Shared/DeadReader", promise: 4, needs: shareable | link,
		says: "A dead reader does not live on other readers' renewals.",
		run: func(c *C) {
			name := c.name("x")
			dead := c.openLink(locker.WithTTL(c.b.TTL))
			live := c.open(locker.WithTTL(6 * c.b.TTL))
			dead.acquire(name, locker.Shared())
			h := live.acquire(name, locker.Shared())
			p := c.open().queue(name)
			died := time.Now()
			dead.link.Freeze()
			// Until the dead one has no claim any more and the other has renewed.
			time.Sleep(max(c.afterDeath(died), 5*c.b.TTL/2))
			c.alive(h, "when another reader died")
			if p.finished() {
				c.fatalf("exclusive beside a reader that lives: %v", p.err)
			}
			released := time.Now()
			c.release(h)
			next := p.held(6*c.b.TTL + soon)
			if took, limit := time.Since(released), 2*c.b.TTL+time.Second+c.late.Slack(released); took > limit {
				c.errorf("free %v after the release of the only reader alive, want at most %v", took, limit)
			}
			c.release(next)
		},
	},
}

// above checks that the tokens of holdings that may overlap are all greater than what came
// before.
func (t *tokens) above(c *C, holdings ...Holding) {
	c.tb.Helper()
	var all []int64
	for _, h := range holdings {
		if all = append(all, h.Token()); h.Token() <= t.last {
			c.errorf("token %d of %q after %d", h.Token(), h.Name(), t.last)
		}
	}
	t.last = max(t.last, slices.Max(all))
}

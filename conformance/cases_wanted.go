package conformance

import (
	"time"

	"github.com/seed80cd6120/locker"
)

var wantedCases = []*testCase{
	{
		name: "Wanted/Nobody", promise: 13, needs: madeByLocker,
		says: "Wanted is never closed while nobody else has waited: not by a try that fails, and not for whoever waited itself.",
		run: func(c *C) {
			name := c.name("x")
			a, b := c.openLocker(), c.openLocker()
			first := a.lock(name)
			for range 3 {
				b.taken(name)
				a.taken(name)
			}
			unwanted := func(l *locker.Lock) {
				select {
				case <-c.b.api.wanted(l):
					c.errorf("%v is wanted, and nobody waits", l)
				case <-time.After(400 * time.Millisecond):
				}
			}
			unwanted(first)
			p := b.queue(name)
			c.release(first)
			second, ok := p.held(soon).(*locker.Lock)
			if !ok {
				return // a defect stands between
			}
			unwanted(second)
			c.release(second)
		},
	},
	{
		name: "Wanted/Hint", promise: 13, needs: madeByLocker,
		says: "Wanted is a channel that may be asked for at any time: before and after somebody waits, and after the end.",
		run: func(c *C) {
			name := c.name("x")
			h := c.openLocker().lock(name)
			before := c.b.api.wanted(h)
			p := c.open().queue(name)
			select {
			case <-before:
				select {
				case <-c.b.api.wanted(h):
				default:
					c.errorf("Wanted is closed for one who asked before, and open for one who asks now")
				}
			case <-time.After(400 * time.Millisecond): // it may come late or never
			}
			c.release(h)
			if c.b.api.wanted(h) == nil {
				c.errorf("Wanted after the release is nil")
			}
			c.release(p.held(soon))
		},
	},
}

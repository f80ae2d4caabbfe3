// Package crowd remembers whether a lock has been taken by others of late: a backend may
// ask in a cheaper way where that is not to be expected.
package crowd

import "sync/atomic"

// Lasts is how many acquisitions in a row must have met nobody before that is expected of
// the next one.
const Lasts = 32

// Crowd is what the latest acquisitions have met. The zero value expects nobody.
type Crowd struct{ left atomic.Int32 }

// Expected reports whether the next one will probably meet others.
func (c *Crowd) Expected() bool { return c.left.Load() > 0 }

// Met takes note of whether one has.
func (c *Crowd) Met(others bool) {
	if others {
		c.left.Store(Lasts)
	} else if c.Expected() {
		c.left.Add(-1)
	}
}

package locker

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// SystemClock returns a new clock of the kind that every Locker made without
// WithClock has. On Linux it goes on while the machine is suspended, which the
// clock behind time.Since does not: a lock whose time ran out during the sleep is
// lost at the first look.
func SystemClock() driver.Clock {
	c := &systemClock{start: time.Now(), boot: bootTime}
	c.Now()
	return c
}

// systemClock is the monotonic clock of package time plus the time asleep. To ask
// the system for the latter costs several times as much as to read the time, and
// it changes only when the machine wakes up. That shows as a jump of the wall
// clock against the monotonic one, so it is asked only after such a jump.
type systemClock struct {
	start  time.Time
	boot   func() (nanoseconds int64, ok bool)
	wall   atomic.Int64 // wall clock less monotonic clock, at the last question
	asleep atomic.Int64 // boot clock less monotonic clock, at the last question
}

// jump is how far the wall clock may move against the monotonic one before the
// system is asked. Being corrected slowly it moves by less than a millisecond a
// second.
const jump = int64(time.Millisecond)

func (c *systemClock) Now() driver.Instant {
	now := time.Now()
	mono := int64(now.Sub(c.start))
	wall := now.UnixNano() - mono
	if d := wall - c.wall.Load(); d > jump || d < -jump {
		if asleep, ok := c.askAsleep(); ok {
			c.grow(asleep)
		}
		c.wall.Store(wall) // last: until then others ask, too
	}
	return driver.Instant(mono + c.asleep.Load())
}

// askAsleep asks the system for the time asleep; ok is false where it is not known. If this process stands still between the
// readings of the two clocks, that would count as sleep and hide as much of a later one; so they are read again.
func (c *systemClock) askAsleep() (asleep int64, ok bool) {
	best := time.Duration(math.MaxInt64)
	for i := 0; i < 100 && best > time.Duration(jump); i++ {
		before := time.Since(c.start)
		boot, ok := c.boot()
		if !ok {
			return 0, false
		}
		if took := time.Since(c.start) - before; took < best {
			best, asleep = took, boot-int64(before)
		}
	}
	return asleep, true
}

// grow never lets the clock go back, whoever comes first.
func (c *systemClock) grow(asleep int64) {
	for {
		old := c.asleep.Load()
		if asleep <= old && old != 0 || c.asleep.CompareAndSwap(old, asleep) {
			return
		}
	}
}

var start = time.Now()

// TimeClock is the clock of package time alone.
type TimeClock struct{}

// Now returns the time since the program started.
func (TimeClock) Now() driver.Instant { return driver.Instant(time.Since(start)) }

package locker

import (
	"sync/atomic"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// SystemClock returns a new clock of the kind that every Locker made without
// WithClock has. On Linux it goes on while the machine is suspended, which the
// clock behind time.Since does not: a lock whose time ran out during the sleep is
// lost at the first look.
func SystemClock() driver.Clock {
	c := &systemClock{start: time.Now()}
	c.Now()
	return c
}

// systemClock is the monotonic clock of package time plus the time asleep. To ask
// the system for the latter costs several times as much as to read the time, and
// it changes only when the machine wakes up. That shows as a jump of the wall
// clock against the monotonic one, so it is asked only after such a jump.
type systemClock struct {
	start  time.Time
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
		c.wall.Store(wall)
		if boot, ok := bootTime(); ok {
			c.grow(boot - mono)
		}
	}
	return driver.Instant(mono + c.asleep.Load())
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

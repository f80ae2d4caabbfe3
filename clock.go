package locker

import (
	"time"

	"github.com/seed80cd6120/locker/driver"
)

var start = time.Now()

func sinceStart() driver.Instant { return driver.Instant(time.Since(start)) }

// TimeClock is the clock of package time. Inside a testing/synctest bubble it
// runs on the bubble's time.
type TimeClock struct{}

// Now returns the time since the program started.
func (TimeClock) Now() driver.Instant { return sinceStart() }

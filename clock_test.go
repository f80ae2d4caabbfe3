package locker

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

func TestSystemClockNeverGoesBack(t *testing.T) {
	c := SystemClock()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			last := c.Now()
			for range 100_000 {
				now := c.Now()
				if now < last {
					t.Errorf("went back by %v", last.Sub(now))
					return
				}
				last = now
			}
		})
	}
	wg.Wait()
}

// A user's test in a synctest bubble gets a clock that runs on the bubble's time.
func TestSystemClockInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := SystemClock()
		before := c.Now()
		time.Sleep(time.Hour)
		if d := c.Now().Sub(before); d != time.Hour {
			t.Errorf("an hour took %v", d)
		}
	})
}

// A jump of the wall clock alone does not move the clock: what counts is what
// the system says about the time asleep.
func TestSystemClockIgnoresWallClock(t *testing.T) {
	c := SystemClock().(*systemClock)
	before := c.Now()
	c.wall.Add(-int64(time.Hour)) // as if the wall clock had been set forward
	if d := c.Now().Sub(before); d > time.Minute {
		t.Errorf("moved by %v", d)
	}
	if !bootTimeKnown() {
		return
	}
	c.asleep.Add(-int64(time.Hour)) // as if an hour asleep were not known yet
	c.wall.Add(-int64(time.Hour))
	if d := c.Now().Sub(before); d < -time.Minute || d > time.Minute {
		t.Errorf("%v off after the time asleep was asked for", d)
	}
}

// A process that stands still while it asks for the time asleep has not slept.
func TestSystemClockAskedSlowly(t *testing.T) {
	if !bootTimeKnown() {
		t.Skip("the time asleep is not known on this system")
	}
	const pause = 200 * time.Millisecond
	c := &systemClock{start: time.Now()}
	asked := 0
	c.boot = func() (int64, bool) {
		if asked++; asked == 1 {
			time.Sleep(pause)
		}
		return bootTime()
	}
	c.Now()
	mono := time.Since(c.start)
	boot, _ := bootTime() // later, if this process stands still here
	exact := boot - int64(mono)
	if d := time.Duration(c.asleep.Load() - exact); asked < 2 || d < -time.Minute || d >= pause {
		t.Errorf("the time asleep is %v too long after %d questions", d, asked)
	}
}

func bootTimeKnown() bool { _, ok := bootTime(); return ok }

var _ driver.Clock = TimeClock{}

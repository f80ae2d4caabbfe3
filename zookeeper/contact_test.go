package zookeeper

import (
	"testing"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

const sec = driver.Instant(time.Second)

func TestContactWithServerAlone(t *testing.T) {
	var c contact
	c.begin(1*sec, 10*time.Second, 2*time.Second)
	c.answer(3*sec, 4*sec, false)
	if got := c.until(); got != 11*sec {
		t.Errorf("before it is known to be alone: %v", got)
	}
	c.alone()
	if got := c.until(); got != 13*sec {
		t.Errorf("counted from %v, want the sending of the last request answered", got-10*sec)
	}
	c.answer(6*sec, 9*sec, false)
	c.answer(5*sec, 9*sec, false) // a late answer to an earlier request takes nothing back
	if got := c.until(); got != 16*sec {
		t.Errorf("until %v", got)
	}
}

// A follower that is cut off from its leader answers pings and reads all the same.
func TestContactWithFollowerCountsWhatTheLeaderKnows(t *testing.T) {
	var c contact
	c.begin(0, 10*time.Second, 2*time.Second)
	for s := range driver.Instant(9) {
		c.answer(s*sec, s*sec+1, false)
	}
	if got := c.until(); got != 10*sec {
		t.Errorf("pings alone moved the end to %v", got)
	}
	c.answer(9*sec, 9*sec+1, true)
	if got := c.until(); got != 16*sec {
		t.Errorf("the leader answered at 9 s, so it knew of what was answered by 7 s: until %v", got)
	}
	// An answer that was long on its way says when the server heard of the request
	// only by when it came.
	c.answer(10*sec, 14*sec, false)
	c.answer(15*sec, 15*sec, true)
	if got := c.until(); got >= 20*sec {
		t.Errorf("until %v, although the request of 10 s may have arrived just before its answer", got)
	}
}

func TestContactForgetsWhatIsWorthNothing(t *testing.T) {
	var c contact
	c.begin(0, time.Second, 500*time.Millisecond)
	for i := range driver.Instant(100_000) {
		c.answer(i*sec/100, i*sec/100, false)
	}
	if len(c.heard) > 100 {
		t.Errorf("%d answers kept", len(c.heard))
	}
}

func TestContactIsStaleBeforeItIsSpent(t *testing.T) {
	for _, timeout := range []time.Duration{time.Second, 4 * time.Second, 15 * time.Second, 40 * time.Second} {
		var c contact
		lag := lagFor(0, timeout)
		c.begin(0, timeout, lag)
		now := driver.Instant(0)
		for !c.stale(now) {
			now += driver.Instant(time.Millisecond)
		}
		if left := c.until().Sub(now); left < timeout*2/5 {
			t.Errorf("session of %v: %v left when the leader is asked again", timeout, left)
		}
		if c.spent(now) {
			t.Errorf("session of %v: spent when stale", timeout)
		}
	}
	if got := lagFor(2*time.Second, 15*time.Second); got != 1500*time.Millisecond {
		t.Errorf("lag with a tick of 2 s: %v", got)
	}
}

package servertime

import (
	"testing"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

type clock struct {
	driver.Clock
	now driver.Instant
}

func (c *clock) Now() driver.Instant { return c.now }

// TestLearn: the guess lies between what the answer allows at the earliest and at the latest, and changes no more than
// that takes.
func TestLearn(t *testing.T) {
	const second = driver.Instant(time.Second)
	c := &clock{now: 100 * second}
	g := New(c)
	for _, answer := range []struct{ said, sent, want int64 }{
		{5_000_000, 100, 5_000_000}, // sent and answered in the same moment
		{5_300_000, 99, 5_300_000},  // the server is later than the guess, however long the answer took
		{5_200_000, 99, 5_300_000},  // within a second of it
		{4_000_000, 99, 5_000_000},  // earlier, by a second for the way at most
	} {
		g.Learn(answer.said, driver.Instant(answer.sent)*second)
		if got := g.Now(); got != answer.want {
			t.Errorf("after %d, sent at %d s: %d, want %d", answer.said, answer.sent, got, answer.want)
		}
	}
}

// TestBegan: no earlier than the last request, plus the time since by the server's clock, no later than the news came, and not
// at all by news from before the last answer.
func TestBegan(t *testing.T) {
	const second = driver.Instant(time.Second)
	for at, want := range map[int64]driver.Instant{4_999_999: 0, 5_000_000: 100 * second, 6_000_000: 101 * second, 9_000_000: 103 * second} {
		began, ok := Began(100*second, 5_000_000, at, 103*second)
		if ok != (want != 0) || ok && began != want {
			t.Errorf("at %d: %v %v, want %v", at, began, ok, want)
		}
	}
}

// Package servertime guesses what time it is on a server, from what the server has said.
package servertime

import (
	"sync/atomic"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// Guess is about what time it is on one server. The first guess is the time here. A wrong guess costs one
// more request.
type Guess struct {
	clock driver.Clock
	ahead atomic.Int64 // the server's time less the clock, in microseconds
}

// New returns a guess that counts on by clock.
func New(clock driver.Clock) *Guess {
	g := &Guess{clock: clock}
	g.ahead.Store(time.Now().UnixMicro() - micros(clock.Now()))
	return g
}

func micros(i driver.Instant) int64 { return int64(i) / 1000 }

// Now returns about what time it is on the server, in microseconds since 1970.
func (g *Guess) Now() int64 { return max(1, micros(g.clock.Now())+g.ahead.Load()) }

// Learn corrects the guess: the server said that it was the time now, in microseconds, at some moment between
// sent and this one.
func (g *Guess) Learn(now int64, sent driver.Instant) {
	ahead := max(g.ahead.Load(), now-micros(g.clock.Now()))
	g.ahead.Store(min(ahead, now-micros(sent)))
}

// Began returns a moment before which the server had not begun to count the time of a holding that it granted at the time at, by
// news that came at received. The last answer was for a request sent at sent, when the server's time was now: at is no
// earlier than that request, plus the time that the server's clock has measured since. Not ok: the news is from before that
// answer, of a holding that has come and gone.
func Began(sent driver.Instant, now, at int64, received driver.Instant) (began driver.Instant, ok bool) {
	return min(sent.Add(time.Duration(at-now)*time.Microsecond), received), at >= now
}

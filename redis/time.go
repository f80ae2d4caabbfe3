package redis

import (
	"sync/atomic"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// fresh is for how long a request that takes something is meant. The network may
// keep one for longer than anybody waits for the answer; the server refuses it
// then.
const fresh = 5 * time.Second

// serverTime knows about what time it is on the server, in microseconds. The first
// guess is the time here. A wrong guess costs one more request.
type serverTime struct {
	clock driver.Clock
	ahead atomic.Int64 // the server's time less the clock
}

func newServerTime(clock driver.Clock) *serverTime {
	t := &serverTime{clock: clock}
	t.ahead.Store(time.Now().UnixMicro() - micros(clock.Now()))
	return t
}

func micros(i driver.Instant) int64 { return int64(i) / 1000 }

// The scripts compare times as text of 16 digits: from 2001 to 2286.
const first, last = 1_000_000_000_000_000, 9_999_999_999_999_999

// latest is the server's time until which a request that is sent now is meant.
func (t *serverTime) latest(now driver.Instant) int64 {
	return min(max(micros(now)+t.ahead.Load()+fresh.Microseconds(), first), last)
}

// learn corrects the guess: the server said that it was the time at, some time
// between sent and now.
func (t *serverTime) learn(at int64, sent driver.Instant) {
	ahead := t.ahead.Load()
	ahead = max(ahead, at-micros(t.clock.Now()))
	t.ahead.Store(min(ahead, at-micros(sent)))
}

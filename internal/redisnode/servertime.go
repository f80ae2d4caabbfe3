package redisnode

import (
	"sync/atomic"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// fresh is for how long a request that takes something is meant. The network may keep one for
// longer than anybody waits for the answer; the server refuses it then.
const fresh = 5 * time.Second

// serverTime knows about what time it is on the server, in microseconds since 1970. The first
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

// Time returns about what time it is on the server, in microseconds since 1970.
func (n *Node) Time() int64 { return n.time.at(n.clock.Now()) }

// at returns about what time it is on the server at i.
func (t *serverTime) at(i driver.Instant) int64 { return max(micros(i)+t.ahead.Load(), 1) }

// latest returns the server's time until which a request that is sent at i is meant.
func (t *serverTime) latest(i driver.Instant) int64 { return t.at(i) + fresh.Microseconds() }

// learn corrects the guess: the server said that it was the time now, at some moment between
// sent and this one.
func (t *serverTime) learn(now int64, sent driver.Instant) {
	ahead := max(t.ahead.Load(), now-micros(t.clock.Now()))
	t.ahead.Store(min(ahead, now-micros(sent)))
}

package redis

import (
	"sync/atomic"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

const (
	// seen is for how long after a look a queue may be joined without another: the
	// server keeps the queue, and its clock the mark, for at least 25 seconds more.
	seen = 10 * time.Second
	// recent is how long ago this Locker may have got the name at most.
	recent = time.Second
	// moment is how long it may have waited for it.
	moment = 100 * time.Millisecond
	// several is how many must have been before it, so that somebody is likely to wait still.
	several = 2
	// stragglers is for how much longer than other requests the one that joins a queue which
	// moves may be on its way without having an effect when it arrives.
	stragglers = 25 * time.Second
)

// moving is a queue in which several wait, each for a moment only. Who joins it need not
// be told how long the holder has, and nothing has to be prolonged: a command does it (RPUSHX,
// which does nothing where nobody waits), which the server carries out in a fourth of the time
// of a script. One that is not served soon looks as usual.
type moving struct {
	name string
	seen driver.Instant // the answer from the server that said so
	got  atomic.Int64   // when this Locker got the name last

	lock, queue any // its keys, as arguments
}

// movingAs is the queue that moves if it is that of the name, nil otherwise.
func (b *bucket) movingAs(name string) *moving {
	if m := b.moving.Load(); m != nil && m.name == name {
		return m
	}
	return nil
}

// moves reports whether the name's queue may be joined by a command.
func (b *bucket) moves(name string, now driver.Instant) bool {
	m := b.movingAs(name)
	return m != nil && now.Sub(m.seen) < seen && now.Sub(driver.Instant(m.got.Load())) < recent
}

// lockArg and queueArg are keys of a name as arguments, made once for one whose queue moves.

func (b *bucket) lockArg(name string) any {
	if m := b.movingAs(name); m != nil {
		return m.lock
	}
	return b.lock(name)
}

func (b *bucket) queueArg(name string) any {
	if m := b.movingAs(name); m != nil {
		return m.queue
	}
	return b.queue(name)
}

// joined takes note of how many waited in the name's queue.
func (b *bucket) joined(name string, ahead int64, now driver.Instant) {
	old := b.movingAs(name)
	switch {
	case ahead >= several:
		m := &moving{name: name, seen: now, lock: b.lockArg(name), queue: b.queueArg(name)}
		if old != nil {
			m.got.Store(old.got.Load())
		}
		b.moving.Store(m)
	case old != nil:
		b.moving.Store(nil)
	}
}

// got takes note of that the name came from its queue after a wait.
func (b *bucket) got(name string, waited time.Duration, now driver.Instant) {
	if m := b.movingAs(name); m != nil && waited < moment {
		m.got.Store(int64(now))
	}
}

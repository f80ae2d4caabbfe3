package faults

import (
	"errors"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/stamp"
)

// What can happen to what a user has on the servers.
var sessionRows = []Row{
	{Number: 10, Shows: []int{14}, Name: "waiters-session-dies", Quick: true, Run: waitersSessionDies,
		See: "it queues anew; never a grant out of turn, never stuck"},
	{Number: 11, Shows: []int{3}, Name: "removed-by-hand", Quick: true, Run: removedByHand,
		See: "the holder is told within a second"},
	{Number: 12, Shows: []int{3}, Name: "session-closed-from-elsewhere", Run: sessionClosed,
		For: []string{etcdFamily, zooKeeperFamily},
		See: "the holder is told at once, not when the session would have expired"},
	{Number: 21, Shows: []int{2}, Name: "clock-jump", Quick: true, Run: clockJump,
		For: []string{redisFamily, redlockFamily},
		See: "two holders cannot be prevented; the tokens are in order"},
	{Number: 24, Shows: []int{3}, Name: "renewal-brings-nothing-back", Run: nothingBack,
		See: "a lock that is lost stays lost, and its name free"},
}

// What stands for the waiter at the server is taken away: its session, its lease, its
// entry in the queue.
func waitersSessionDies(x *Exam) {
	x.Access.TTL = long
	two := x.holderAndWaiter(40 * time.Second)
	x.Did("end the waiter's session", false, "", func() error { return x.EndSession(x.Within(time.Minute), two.name, true) })
	x.stillWaits(two.wait, two.held, 1500*time.Millisecond)
	released := time.Now()
	x.Released(two.held)
	x.Released(x.GoesOn(two.wait, released, 22*time.Second, "the release"))
}

// An operator deletes what makes somebody the holder.
func removedByHand(x *Exam) {
	name := x.Lock()
	a, _ := x.Player("A")
	ha := x.Acquired(a, name, 10*time.Second)
	x.Did("delete by hand", true, name, func() error { return x.Destroy(x.Within(time.Minute), name) })
	x.toldAfter(ha, stamp.Now(), time.Second)
	if err := ha.Release(x.Within(5 * time.Second)); x.Backend.Offers.Late && !errors.Is(err, locker.ErrLost) {
		x.Errorf("release after the loss: %v, want ErrLost", err)
	}
	b, _ := x.Player("B")
	hb := x.Acquired(b, name, x.Backend.Death+5*time.Second)
	if x.Backend.Offers.Tokens && hb.Lock.Token() <= ha.Lock.Token() {
		x.Errorf("the next token is %d, after %d", hb.Lock.Token(), ha.Lock.Token())
	}
	x.Released(hb)
}

// toldAfter asserts that the holder is told of the loss soon after something happened.
func (x *Exam) toldAfter(h *Holding, at int64, within time.Duration) {
	x.Helper()
	if !x.Backend.Offers.Lost {
		return
	}
	x.Told(h, within+noise)
	if took := time.Duration(h.LostAt() - at); !inTime(took, within+noise/3, moment(at)) {
		x.unlessLate(moment(at), "the holder was told after %v, want %v", took, within)
	}
}

// The holder's session is ended by somebody else.
func sessionClosed(x *Exam) {
	two := x.holderAndWaiter(30 * time.Second)
	x.Did("end the holder's session", true, two.name, func() error { return x.EndSession(x.Within(time.Minute), two.name, false) })
	x.toldAfter(two.held, stamp.Now(), 500*time.Millisecond)
	x.Released(x.Get(two.wait))
	x.Released(x.Acquired(two.a, two.name, 10*time.Second)) // in a new session
}

// The clocks of enough servers jump forward: the lock's time is over there, not at the
// holder.
func clockJump(x *Exam) {
	x.secondHolder(forgotten{ttl: believing, how: "clock jump", forget: func(name string, _ []*Network) error {
		return x.Expire(x.Within(time.Minute), name)
	}})
}

// A lock that is gone is renewed all the same.
func nothingBack(x *Exam) {
	x.Access.TTL = x.Backend.TTL
	name, a, b := x.pair()
	other := x.Acquired(a, x.Lock(), 10*time.Second) // so that there is something to renew
	ha := x.Acquired(a, name, 10*time.Second)
	x.Did("delete by hand", true, name, func() error { return x.Destroy(x.Within(time.Minute), name) })
	x.Told(ha, x.Backend.TTL+noise)
	for range 8 {
		time.Sleep(x.Backend.TTL / 8)
		h, err := b.Try(x.Within(5*time.Second), name)
		switch {
		case err == nil:
			x.Released(h)
		case errors.Is(err, locker.ErrNotAcquired):
			x.Errorf("the name of a lock that is lost is not free: %v", err)
		default:
			x.Logf("try: %v", err) // nothing was said about the name
		}
	}
	if x.Backend.Offers.Lost && ha.Look() == nil {
		x.Errorf("the lock that was lost is back")
	}
	x.StillHolds(other, "who holds another lock")
	x.Released(other)
}

package faults

import (
	"testing"
	"time"

	"github.com/seed80cd6120/locker/internal/servers"
)

// Rows work with waiters that do not show at the servers, as those of other libraries.
func TestWaiterThatDoesNotShow(t *testing.T) {
	servers.Need(t)
	s := StartOn(t, Redis1)
	s.Waiting = nil
	Examine(t, s, func(x *Exam) {
		name, a, b := x.pair()
		held := x.Acquired(a, name, 10*time.Second)
		before := b.sent()
		wait := x.Waits(b, name, 30*time.Second)
		if b.sent() == before {
			x.Errorf("the servers have not heard from the waiter")
		}
		x.Released(held)
		x.Released(x.Get(wait))
	})
	Examine(t, s, cancelledAnywhere)
}

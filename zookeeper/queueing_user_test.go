package zookeeper

import (
	"testing"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// A user is one of those who want a lock: a client of its own with one claim.
type user struct {
	*backend
	t     testing.TB
	claim *driver.Claim
	node  string
	turn  chan outcome
}

// queues has a new client queue for name, and returns when it is in the queue.
func queues(t testing.TB, op operator, addr, name string) *user {
	t.Helper()
	u := &user{backend: raw(t, []string{addr}), t: t}
	u.claim = claim(t, name)
	u.turn = begin(within(t, time.Minute), u.backend, u.claim)
	u.node = op.nodeOf(u.claim)
	return u
}

// holds waits for the user's turn.
func (u *user) holds() driver.Grant {
	u.t.Helper()
	return await(u.t, u.turn, "grant").ok(u.t)
}

// waits asserts that it is not the user's turn, as far as it has been told.
func (u *user) waits() {
	u.t.Helper()
	select {
	case o := <-u.turn:
		u.t.Fatalf("granted while another holds: %+v", o)
	default:
	}
}

// told returns when what the servers had to say until now has been heard and
// answered.
func (u *user) told() {
	u.t.Helper()
	for range 2 { // what the user asks after the news has been answered after the second
		if _, err := u.session.conn.Sync("/"); err != nil {
			u.t.Fatal(err)
		}
	}
}

func (u *user) releases() {
	u.t.Helper()
	if err := u.Release(within(u.t, time.Minute), u.claim); err != nil {
		u.t.Fatalf("release: %v", err)
	}
}

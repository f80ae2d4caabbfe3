package zookeeper

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

const sec = driver.Instant(time.Second)

// fakeClock tells what it is set to.
type fakeClock struct{ now driver.Instant }

func (c *fakeClock) Now() driver.Instant { return c.now }

// expiring is a session of 10 s, opened by a request sent at 0. The server is taken to lag by 2.25 s.
func expiring() *session {
	return &session{clock: new(fakeClock), timeout: 10 * time.Second, newest: new(connection), connected: true}
}

// exchange records a request and its answer; leader says that the leader answered it.
func (s *session) exchange(leader bool, sent, answered driver.Instant) {
	op := uint32(opGetData)
	if leader {
		op = opMulti
	}
	s.newest.sent = append(s.newest.sent, request{op: op, sent: sent})
	s.clock.(*fakeClock).now = answered
	s.answered(s.newest, 0, true)
}

func (s *session) until() driver.Instant {
	_, until := s.state()
	return until
}

// A follower that is cut off from its leader answers pings and reads all the same.
func TestExpiryCountsWhatTheLeaderKnows(t *testing.T) {
	s := expiring()
	for at := range driver.Instant(9) {
		s.exchange(false, at*sec, at*sec+1)
	}
	if got := s.until(); got != 10*sec {
		t.Errorf("pings alone moved the end to %v", got)
	}
	s.exchange(true, 9*sec, 9*sec+1)
	if got := s.until(); got != 16*sec {
		t.Errorf("the leader answered at 9 s, so it knew of what was answered by 6.75 s: until %v", got)
	}
	// An answer that was long on its way says when the server heard of the request
	// only by when it came.
	s.exchange(false, 10*sec, 14*sec)
	s.exchange(true, 15*sec, 15*sec)
	if got := s.until(); got >= 20*sec {
		t.Errorf("until %v, although the request of 10 s may have arrived just before its answer", got)
	}
}

// A leader that is cut off from a majority goes on with sessions, and does not answer a write.
func TestExpiryOfSessionThatIsGoneOnWith(t *testing.T) {
	s := expiring()
	s.changed, s.id = make(chan struct{}), 7
	s.newest.began = 5 * sec
	s.opened(s.newest, 7, 10*time.Second)
	s.exchange(false, 9*sec, 9*sec)
	if got := s.until(); got != 10*sec {
		t.Errorf("without a write the end is at %v", got)
	}
	s.exchange(true, 9*sec, 9*sec)
	if got := s.until(); got != 15*sec {
		t.Errorf("after a write the end is at %v", got)
	}
}

// A server answers credentials without noting that it has heard of the session.
func TestExpiryCountsNoCredentials(t *testing.T) {
	s := expiring()
	ours, server := net.Pipe()
	defer ours.Close()
	go io.Copy(io.Discard, server)
	c := s.newest
	c.Conn, c.session, c.began = ours, s, 5*sec
	s.changed, s.id = make(chan struct{}), 7
	s.opened(c, 7, 10*time.Second)
	for i, op := range []uint32{opSetAuth, opMulti} {
		s.clock.(*fakeClock).now = driver.Instant(6+3*i) * sec
		if _, err := c.Write(protocolFrame(t, int32(i), op)); err != nil {
			t.Fatal(err)
		}
		s.answered(c, 0, true)
	}
	if s.sure != c.began {
		t.Errorf("the leader is sure to know of what was sent at %v, want %v", s.sure, c.began)
	}
}

func TestExpiryForgetsWhatIsWorthNothing(t *testing.T) {
	s := expiring()
	for i := range driver.Instant(100_000) {
		s.exchange(false, i*sec/100, i*sec/100)
	}
	if len(s.later) > 16 {
		t.Errorf("%d answers kept", len(s.later))
	}
	s.exchange(true, 1000*sec, 1000*sec)
	if got := s.until(); got < 1005*sec {
		t.Errorf("until %v, though a request was answered every 10 ms", got)
	}
}

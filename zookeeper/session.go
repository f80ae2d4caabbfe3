package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
)

// A session is the Locker's one session with ZooKeeper. The library keeps it, over one
// connection after the other, and makes a new one when it has expired. The session here knows which connection is in
// use and for how long the session is certain to live.
type session struct {
	settings
	clock   driver.Clock
	log     *slog.Logger
	servers []string
	life    context.Context // ends when close begins
	quit    context.CancelFunc
	conn    *zk.Conn
	events  <-chan zk.Event // closed when the library has ended; what it says is not needed

	mu        sync.Mutex
	id        int64 // 0 if there is none
	timeout   time.Duration
	givenUp   bool          // it is not gone back to
	zxid      int64         // of the last change that is known
	newest    *connection   // the connection made last
	connected bool          // a server has confirmed the session on it, and it is not over
	accepted  bool          // the servers have taken the credentials
	refused   error         // why they have not
	failure   error         // why there was no connection the last time
	failures  int           // tries since there was one
	changed   chan struct{} // closed and made anew when what usable looks at changes

	sure  driver.Instant // sending of the last request that the leader is certain to know of
	later []request      // answered later, oldest first; see answered
}

// newSession makes the session. It does not wait for the servers.
func newSession(servers []string, timeout time.Duration, cfg *locker.Config, set settings) *session {
	s := &session{
		clock: cfg.Clock, log: cfg.Logger, settings: set, timeout: timeout,
		changed: make(chan struct{}), failure: errors.New("none has answered yet"),
	}
	s.life, s.quit = context.WithCancel(context.Background())
	s.conn, s.events, _ = zk.Connect(servers, timeout, // which fails without servers only
		zk.WithDialer(s.dial), zk.WithHostProvider(hosts{s}), zk.WithLogInfo(false),
		zk.WithLogger(slog.NewLogLogger(s.log.With("from", "go-zookeeper").Handler(), slog.LevelDebug)))
	go s.authenticate()
	return s
}

// authenticate gives the servers the credentials, which the library repeats on later connections.
func (s *session) authenticate() {
	for i := 0; i < len(s.auth) && s.life.Err() == nil; {
		err := s.conn.AddAuth(s.auth[i].scheme, []byte(s.auth[i].data))
		if errors.Is(err, zk.ErrAuthFailed) {
			s.set(func() { s.refused = fmt.Errorf("authenticate with %s: %w", s.conn.Server(), err) })
			return
		}
		if err == nil {
			i++
		}
	}
	s.set(func() { s.accepted = true })
}

// set changes what usable looks at, and wakes those who wait for a change.
func (s *session) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	close(s.changed)
	s.changed = make(chan struct{})
}

// opened records that a server has answered the request to open the session or to go on with
// it. An id of 0 means that the session has expired. A majority has agreed to a new one. One that goes on counts from
// c.began, but only once a later write is answered: until then the server that agreed may be a deposed leader. So the
// request is recorded as answered long ago, for the next write to confirm.
func (s *session) opened(c *connection, id int64, timeout time.Duration) {
	s.set(func() {
		another := id != s.id
		if another {
			s.log.Info("zookeeper: another session, none if it is 0", "id", fmt.Sprintf("%#x", uint64(id)), "timeout", timeout)
			s.id, s.givenUp, s.zxid = id, false, 0
		}
		c.opened, s.failures, s.later = true, 0, nil
		if id == 0 {
			return
		}
		s.connected, s.timeout = true, timeout
		if another {
			s.sure = c.began
		} else {
			s.later = []request{{sent: c.began, answered: c.began.Add(-timeout)}}
		}
	})
}

// closed records that a connection is over, or was not made if c is nil. If a server did not open the session, and
// it may have expired by now, it is given up: as long as we came back to it, a server that hears us but is not
// heard would keep it alive, and so all that is locked in it. If none does, they may have come back with less than we have
// seen, from a backup or empty, and take nobody who tells them so.
func (s *session) closed(c *connection, err error) {
	s.set(func() {
		s.failure = err
		if c != nil && c.opened {
			s.log.Info("zookeeper: disconnected", "error", err)
			s.connected = false
			return
		}
		s.failures++
		heard := s.sure // of us, by the servers: who only waits writes nothing
		if n := len(s.later); n > 0 {
			heard = max(heard, s.later[n-1].sent)
		}
		if s.clock.Now() < heard.Add(s.timeout) {
			return
		}
		s.givenUp = s.givenUp || err == errLate
		if s.failures >= 3*len(s.servers) {
			s.zxid = 0
		}
	})
}

// usable waits for a connection and returns the session's id. Without patience it gives up
// when every server has been tried in vain.
func (s *session) usable(ctx context.Context, patient bool) (id int64, err error) {
	for {
		s.mu.Lock()
		id, ready, changed := s.id, s.accepted && s.connected, s.changed
		tired := !patient && s.failures >= len(s.servers)
		refused, failure := s.refused, s.failure
		s.mu.Unlock()
		switch {
		case s.life.Err() != nil:
			return 0, zk.ErrClosing
		case ready || refused != nil:
			return id, refused
		case tired || ctx.Err() != nil: // which the caller knows
			return 0, fmt.Errorf("%w: %w", zk.ErrNoServer, failure)
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// state returns the session's id, 0 if there is none, and the first moment at which it may expire. A request that began
// and was answered while the id was the same was made in that session: no id comes back.
func (s *session) state() (id int64, until driver.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id, s.sure.Add(s.timeout)
}

// A request is one that the library has sent.
type request struct {
	op             uint32
	sent, answered driver.Instant
}

// answered records an answer to the first request of a connection that had none, and the last change that it tells.
//
// The leader ends a session when it has not heard of it for the timeout. A follower answers reads without it, and
// tells it only with its next heartbeat, once in half a tick, for whom it heard; cut off from the leader it goes on
// answering for several ticks. So a request counts only when the leader has answered another one that was sent so much
// later that the heartbeat had gone through before: both go the same way, one after the other. It has to be one to which
// a majority has agreed: a leader that is cut off goes on answering, too, while the others elect another.
func (s *session) answered(c *connection, zxid int64, well bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.zxid = max(s.zxid, zxid)
	if len(c.sent) == 0 {
		return
	}
	r := c.sent[0]
	c.sent = c.sent[1:]
	if !well || r.op == opSetAuth { // a server answers credentials without noting that it heard of the session
		return
	}
	r.answered = s.clock.Now()
	// Half a tick and half as much again. Servers do not tell their tick, which is rarely more than 3 s, and by default
	// they grant no session of less than two.
	lag := min(s.timeout/2, 3*time.Second) * 3 / 4
	for slices.Contains(leaderOps, r.op) && len(s.later) > 0 && s.later[0].answered.Add(lag) <= r.sent {
		s.sure, s.later = s.later[0].sent, s.later[1:]
	}
	n := len(s.later)
	if n == 0 || r.answered.Sub(s.later[n-1].answered) >= lag/8 {
		s.later = append(s.later[max(0, n-15):], r)
	}
}

// Close ends the session, and with it every node that is left but those that stay for a time.
func (s *session) Close(ctx context.Context) error {
	s.set(s.quit)
	over := make(chan struct{})
	go func() {
		s.conn.Close() // waits for the server, for three seconds at most
		s.set(func() {
			if s.newest != nil {
				_ = s.newest.Conn.Close() // the library ends when its connection does
			}
		})
		for range s.events {
		}
		close(over)
	}()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close the session: %w", context.Cause(ctx))
	}
}

package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/seed80cd6120/locker/driver"
)

// A session is the Locker's one session with ZooKeeper. The library keeps it, over one
// connection after the other. The session here knows which connection is in use, tells the
// holders when the session is over, and counts how long it is safe.
type session struct {
	clock    driver.Clock
	log      *slog.Logger
	settings settings
	servers  int
	contact  contact
	life     context.Context // ends when close begins
	quit     context.CancelFunc
	conn     *zk.Conn
	events   <-chan zk.Event // closed when the library has ended; what it says is not needed

	greeting sync.Mutex // held by greet
	given    int        // credentials that the library has; greeting guards it

	mu       sync.Mutex
	id       int64         // 0 if there is none
	over     chan struct{} // closed when another session takes this one's place
	timeout  time.Duration
	forsaken int64         // a session that is not gone back to
	link     *link         // the connection in use, on which the server has confirmed the session
	ready    bool          // the server has taken the credentials
	newest   *link         // the connection made last, in use or not yet
	changed  chan struct{} // closed and made anew when what usable looks at changes
	refused  error         // what the servers said that no waiting will mend
	failure  error         // why there was no connection the last time it was tried
	failures int           // tries since a connection worked
	holders  map[*claimState]struct{}
	stamp    time.Time      // a moment on the server's clock
	stamped  driver.Instant // not before that moment
}

// dialSession makes the session. It does not wait for the servers.
func dialSession(servers []string, ttl time.Duration, clock driver.Clock, log *slog.Logger, set settings) (*session, error) {
	s := &session{
		clock: clock, log: log, settings: set, servers: len(servers), timeout: ttl,
		changed: make(chan struct{}), over: make(chan struct{}), holders: make(map[*claimState]struct{}),
	}
	s.life, s.quit = context.WithCancel(context.Background())
	made := make(chan struct{}) // the library dials at once, before conn is set
	defer close(made)
	dial := func(network, address string, timeout time.Duration) (net.Conn, error) {
		<-made
		return s.dial(network, address, timeout)
	}
	var err error
	s.conn, s.events, err = zk.Connect(servers, ttl, zk.WithDialer(dial), zk.WithHostProvider(&hosts{session: s}),
		zk.WithLogger(logAdapter{log}), zk.WithLogInfo(false))
	return s, err
}

// stir wakes those who wait for a change. It is called with mu held.
func (s *session) stir() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// opened records that a server has answered the request to open the session or to go on with
// it. An id of 0 means that the session has expired.
func (s *session) opened(l *link, id int64, timeout time.Duration) {
	s.mu.Lock()
	before := s.id
	var lost []*claimState
	if id != before {
		close(s.over)
		s.over = make(chan struct{})
		for st := range s.holders {
			lost = append(lost, st)
		}
		clear(s.holders)
	}
	s.id, s.link, s.ready = id, nil, false
	if id != 0 {
		s.timeout, s.link = timeout, l
		s.contact.begin(l.began, timeout, lagFor(s.settings.tick, timeout))
	}
	s.stir()
	s.mu.Unlock()
	for _, st := range lost {
		st.end(fmt.Errorf("its session is over: %w", zk.ErrSessionExpired))
	}
	switch {
	case id == 0:
		s.log.Warn("zookeeper: session expired")
		return
	case id != before:
		s.log.Info("zookeeper: new session", "id", fmt.Sprintf("%#x", uint64(id)), "timeout", timeout)
	}
	go s.greet(l)
}

// greet gives the server the credentials, unless the library does, which repeats those that
// were taken once, and finds out whether the server stands alone.
func (s *session) greet(l *link) {
	s.greeting.Lock()
	defer s.greeting.Unlock()
	var err error
	for err == nil && s.given < len(s.settings.auth) {
		auth := s.settings.auth[s.given]
		if err = s.conn.AddAuth(auth.scheme, []byte(auth.data)); err == nil {
			s.given++
		}
	}
	s.mu.Lock()
	if errors.Is(err, zk.ErrAuthFailed) {
		s.refused = failed("authenticate with", s.conn.Server(), err)
	}
	s.ready = s.ready || err == nil && s.link == l
	s.stir()
	s.mu.Unlock()
	var config []byte
	if err == nil {
		// The servers of an ensemble are written here; one that stands alone has none.
		config, _, err = s.conn.Get("/zookeeper/config")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !wasAnswered(err) {
		s.failures++
		s.failure = err
		s.stir()
		return
	}
	s.failures, s.failure, s.refused = 0, nil, nil
	if s.link == l && err == nil && !strings.Contains(string(config), "server.") {
		s.contact.alone()
	}
}

// closed records that a connection is over, or was not made if l is nil.
func (s *session) closed(l *link, err error) {
	s.mu.Lock()
	used := l != nil && s.link == l
	if used {
		s.link, s.ready = nil, false
	}
	if l == nil || !l.opened.Load() { // otherwise greet does
		s.failures++
	}
	s.failure = err
	s.stir()
	s.mu.Unlock()
	if used && s.life.Err() == nil {
		s.log.Info("zookeeper: disconnected", "error", err)
	}
}

// usable waits for a connection and returns the session's id. Without patience it gives up
// when every server has been tried in vain.
func (s *session) usable(ctx context.Context, patient bool) (id int64, err error) {
	for {
		s.mu.Lock()
		id, ready, changed, failure, refused := s.id, s.ready, s.changed, s.failure, s.refused
		tired := !patient && s.failures >= s.servers
		s.mu.Unlock()
		switch {
		case s.life.Err() != nil:
			return 0, zk.ErrClosing
		case ready:
			return id, nil
		case refused != nil:
			return 0, refused
		case tired:
			return 0, noServer(failure)
		}
		select {
		case <-changed:
		case <-s.life.Done():
		case <-ctx.Done():
			return 0, noServer(failure) // that ctx has ended, the caller knows
		}
	}
}

func noServer(why error) error {
	if why == nil {
		return zk.ErrNoServer
	}
	return fmt.Errorf("%w: %w", zk.ErrNoServer, why)
}

// now returns the session's id, 0 if there is none, and a channel that is closed when it is over. A request
// that began and was answered while the id was the same was made in that session: no id comes back.
func (s *session) now() (id int64, over <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id, s.over
}

// granted returns the session timeout that the servers gave.
func (s *session) granted() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.timeout
}

// hold has st told of the end of its session; false if that is already past.
func (s *session) hold(st *claimState) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.id != st.session {
		return false
	}
	s.holders[st] = struct{}{}
	st.mu.Lock()
	st.granted = true
	st.mu.Unlock()
	return true
}

func (s *session) drop(st *claimState) {
	s.mu.Lock()
	delete(s.holders, st)
	s.mu.Unlock()
}

// tell records that it is not earlier on the server's clock than ms.
func (s *session) tell(ms int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stamp, s.stamped = time.UnixMilli(ms), s.clock.Now()
}

// serverTime returns a moment that has come on the server's clock; false if none is known.
func (s *session) serverTime() (time.Time, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stamp.Add(s.clock.Now().Sub(s.stamped)), !s.stamp.IsZero()
}

// close ends the session, by ctx.
func (s *session) close(ctx context.Context) error {
	s.quit()
	asked, over := make(chan struct{}), make(chan struct{})
	go func() {
		s.conn.Close() // waits for the server, for three seconds at most
		close(asked)
		for range s.events {
		}
		close(over)
	}()
	select {
	case <-asked:
	case <-time.After(time.Second):
	case <-ctx.Done():
	}
	s.mu.Lock()
	l := s.newest
	s.mu.Unlock()
	if l != nil {
		l.fail(zk.ErrClosing) // the library's loops end when their connection does
	}
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close the session: %w", context.Cause(ctx))
	}
}

type logAdapter struct{ log *slog.Logger }

func (l logAdapter) Printf(format string, args ...any) {
	l.log.Debug("zookeeper: client: " + fmt.Sprintf(format, args...))
}

package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/seed80cd6120/locker/driver"
)

// A session is the Locker's one session with ZooKeeper. The library keeps it, over
// one connection after the other; the session here knows which connection is in use,
// tells the holders when the session is lost, and counts how long it is safe.
type session struct {
	clock    driver.Clock
	log      *slog.Logger
	settings settings
	servers  int
	contact  contact
	life     context.Context // ends when close begins
	quit     context.CancelFunc
	events   <-chan zk.Event
	conn     *zk.Conn

	mu       sync.Mutex
	id       int64
	timeout  time.Duration
	forsaken int64         // a session that is not gone back to
	wire     *wire         // confirmed by the server and in use
	newest   *wire         // made last, in use or not yet
	turn     chan struct{} // closed and made anew when wire, refused or failures changes
	refused  error         // said by the servers, and no waiting will mend it
	failure  error         // why there was no connection the last time it was tried
	failures int           // tries since a connection worked
	holders  map[*place]struct{}
}

// dialSession makes the session. It does not wait for the servers.
func dialSession(servers []string, ttl time.Duration, clock driver.Clock, log *slog.Logger, set settings) (*session, error) {
	s := &session{
		clock:    clock,
		log:      log,
		settings: set,
		servers:  len(servers),
		turn:     make(chan struct{}),
		holders:  make(map[*place]struct{}),
		timeout:  ttl,
	}
	s.life, s.quit = context.WithCancel(context.Background())
	var err error
	// The buffers are for the library's own requests only, all of which are short.
	s.conn, s.events, err = zk.Connect(servers, ttl,
		zk.WithDialer(s.dial), zk.WithHostProvider(&hosts{life: s.life}),
		zk.WithLogger(logAdapter{log}), zk.WithLogInfo(false),
		zk.WithMaxBufferSize(4<<10), zk.WithMaxConnBufferSize(4<<10))
	return s, err
}

// stir wakes those who wait for a change. It is called with mu held.
func (s *session) stir() {
	close(s.turn)
	s.turn = make(chan struct{})
}

// opened is called when a server has answered the request to open or go on with the
// session, before the library knows.
func (s *session) opened(w *wire, id int64, timeout time.Duration) {
	if id == 0 {
		s.log.Warn("zookeeper: session expired")
		s.lose(0, zk.ErrSessionExpired)
		s.mu.Lock()
		s.id = 0
		s.mu.Unlock()
		w.fail(zk.ErrSessionExpired)
		return
	}
	s.lose(id, fmt.Errorf("the session is another one: %w", zk.ErrSessionExpired))
	s.contact.begin(w.began, timeout, lagFor(s.settings.tick, timeout))
	var first []*call
	for _, a := range s.settings.auth {
		c := newCall(opAuth)
		c.req.int32(0)
		c.req.string(a.scheme)
		c.req.string(a.data)
		first = append(first, c)
	}
	// The servers of an ensemble are written here; one that stands alone has none.
	c := newCall(opGetData)
	c.req.string("/zookeeper/config")
	c.req.bool(false)
	w.post(append(first, c)...)

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.id != id {
		s.log.Info("zookeeper: new session", "id", fmt.Sprintf("%#x", uint64(id)), "timeout", timeout)
	}
	s.id, s.timeout, s.wire = id, timeout, w
	s.stir()
}

// judge looks at every answer. An error ends the wire.
func (s *session) judge(w *wire, c *call) error {
	switch {
	case c.op == opAuth && c.err != nil:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.refused = c.err
		s.stir()
		return c.err
	case c.op == opGetData, errors.Is(c.err, errUnimplemented):
		if c.op == opGetData && c.err == nil && !strings.Contains(c.reply().string(), "server.") {
			s.contact.alone()
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.failures, s.failure, s.refused, w.proved = 0, nil, nil, true
	case errors.Is(c.err, errBroken): // the server knows the session no more
		return c.err
	}
	return nil
}

// ended is called when a wire is dead.
func (s *session) ended(w *wire, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.life.Err() != nil:
	case s.wire == w:
		s.wire = nil
		s.failure = err
		if !w.proved {
			s.failures++
		}
		s.log.Info("zookeeper: disconnected", "error", err)
	case !errors.Is(err, zk.ErrSessionExpired):
		s.failures++
		s.failure = err
	}
	s.stir()
}

// usable waits for a connection. Without patience it gives up when every server has
// been tried in vain.
func (s *session) usable(ctx context.Context, patient bool) (*wire, error) {
	for {
		s.mu.Lock()
		w, turn, failure := s.wire, s.turn, s.failure
		refused := s.refused
		tired := !patient && s.failures >= s.servers
		s.mu.Unlock()
		switch {
		case w != nil && w.alive():
			return w, nil
		case refused != nil:
			return nil, refused
		case tired:
			return nil, noServer(failure)
		}
		select {
		case <-turn:
		case <-s.life.Done():
			return nil, zk.ErrClosing
		case <-ctx.Done():
			return nil, noServer(failure) // that ctx has ended, the caller knows
		}
	}
}

func (w *wire) alive() bool {
	select {
	case <-w.dead:
		return false
	default:
		return true
	}
}

func noServer(why error) error {
	if why == nil {
		return zk.ErrNoServer
	}
	return fmt.Errorf("%w: %w", zk.ErrNoServer, why)
}

// now returns the connection in use, nil if there is none, and the session's id, 0
// if there is none.
func (s *session) now() (*wire, int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wire != nil && !s.wire.alive() {
		return nil, s.id
	}
	return s.wire, s.id
}

// granted is the session timeout that the servers gave.
func (s *session) granted() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.timeout
}

// hold has p told of the end of its session; false if that is already past.
func (s *session) hold(p *place) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.id != p.session {
		return false
	}
	s.holders[p] = struct{}{}
	return true
}

func (s *session) drop(p *place) {
	s.mu.Lock()
	delete(s.holders, p)
	s.mu.Unlock()
}

// lose tells every holder that is not of session id.
func (s *session) lose(id int64, reason error) {
	s.mu.Lock()
	var gone []*place
	for p := range s.holders {
		if p.session != id {
			gone = append(gone, p)
			delete(s.holders, p)
		}
	}
	s.mu.Unlock()
	for _, p := range gone {
		p.end(reason)
	}
}

// close ends the session, by ctx.
func (s *session) close(ctx context.Context) error {
	s.quit()
	over := make(chan struct{})
	go func() {
		s.conn.Close() // waits for the server, a second at most
		for range s.events {
		}
		close(over)
	}()
	var err error
	select {
	case <-over:
		return nil
	case <-time.After(time.Second):
		// The library's loops end when their connection does.
	case <-ctx.Done():
		err = fmt.Errorf("close the session: %w", context.Cause(ctx))
	}
	s.mu.Lock()
	w := s.newest
	s.mu.Unlock()
	if w != nil {
		w.fail(zk.ErrClosing)
	}
	if err == nil {
		<-over
	}
	return err
}

type logAdapter struct{ log *slog.Logger }

func (l logAdapter) Printf(format string, args ...any) {
	l.log.Debug("zookeeper: client: " + fmt.Sprintf(format, args...))
}

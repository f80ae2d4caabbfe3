package zookeeper

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// hosts hands the servers to the library in turn. The library's own pauses for a second
// before it tries a single server again, and forgets the name that a certificate is made out
// to.
type hosts struct {
	session *session

	mu      sync.Mutex
	servers []string
	next    int
	last    time.Time // when a server was in use, as far as is known
}

func (h *hosts) Init(servers []string) error {
	h.servers = servers
	h.next = rand.IntN(len(servers))
	h.last = time.Now()
	return nil
}

func (h *hosts) Len() int { return len(h.servers) }

func (h *hosts) Connected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = time.Time{}
}

// Next also says whether the library should fail the calls that wait for a connection, pause for
// a second, and look whether it was closed. Pauses before that are made in dial.
func (h *hosts) Next() (server string, pause bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	server = h.servers[h.next%len(h.servers)]
	h.next++
	if h.last.IsZero() {
		h.last = time.Now()
	}
	return server, h.session.life.Err() != nil || time.Since(h.last) > h.session.granted()
}

// dial connects to a server, for the library.
func (s *session) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	if err := s.rest(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(s.life, timeout)
	defer cancel()
	raw, err := new(net.Dialer).DialContext(ctx, network, address)
	conn := raw
	if err == nil && s.settings.tls != nil {
		conn, err = s.secure(ctx, raw, address)
	}
	if err != nil {
		s.closed(nil, fmt.Errorf("connect to %s: %w", address, err))
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life.Err() != nil {
		_ = raw.Close()
		return nil, zk.ErrClosing
	}
	_ = conn.SetReadDeadline(time.Now().Add(max(s.timeout/3, time.Second))) // to open the session
	s.newest = &link{Conn: conn, raw: raw, home: s, address: address, in: bufio.NewReader(conn), rewatch: make(chan struct{})}
	return s.newest, nil
}

func (s *session) secure(ctx context.Context, raw net.Conn, address string) (net.Conn, error) {
	config := s.settings.tls.Clone()
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(address)
	}
	secured := tls.Client(raw, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, fmt.Errorf("TLS: %w", err)
	}
	return secured, nil
}

// breather is the pause before a session is gone back to. A server that has hung up because somebody else has taken
// the session, and ends it, has done so by then. Who comes between the two has a connection on which
// the server drops every request without a word.
const breather = 20 * time.Millisecond

// rest pauses before a connection is made, longer each time after a round of tries in which no server could be used.
func (s *session) rest() error {
	s.mu.Lock()
	rounds := s.failures / s.servers
	due := rounds > 0 && s.failures%s.servers == 0
	var pause time.Duration
	if s.id != 0 {
		pause = breather
	}
	s.mu.Unlock()
	if due {
		pause = min(25*time.Millisecond<<min(rounds, 5), 500*time.Millisecond)
	}
	select {
	case <-s.life.Done():
		return zk.ErrClosing
	case <-time.After(pause):
		return nil
	}
}

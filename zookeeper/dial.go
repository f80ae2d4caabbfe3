package zookeeper

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// hosts hands the servers to the library in turn. The library's own sleeps for a
// second before it tries a single server again, and forgets the name that a
// certificate is made out to.
type hosts struct {
	life    context.Context
	mu      sync.Mutex
	servers []string
	next    int
}

func (h *hosts) Init(servers []string) error {
	h.servers = servers
	h.next = rand.IntN(len(servers))
	return nil
}

func (h *hosts) Len() int   { return len(h.servers) }
func (h *hosts) Connected() {}

// Next also says whether the library should pause, and look whether it was closed.
// The pauses are made in dial.
func (h *hosts) Next() (server string, pause bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	server = h.servers[h.next%len(h.servers)]
	h.next++
	return server, h.life.Err() != nil
}

// firstPatience is how long the only server there is may take to open the first
// session: it may be busy, and there is neither another to try nor anything to lose.
const firstPatience = 5 * time.Second

// dial connects to a server, for the library.
func (s *session) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	if err := s.rest(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(s.life, timeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err == nil && s.settings.tls != nil {
		conn, err = s.secure(ctx, conn, address)
	}
	if err != nil {
		s.failed(fmt.Errorf("connect to %s: %w", address, err))
		return nil, err
	}
	w := newWire(s, conn)
	s.mu.Lock()
	s.newest = w
	patience := max(s.timeout/3, time.Second)
	if s.id == 0 && s.servers == 1 {
		patience = max(patience, firstPatience)
	}
	s.mu.Unlock()
	// A server that does not answer must not keep us from trying another.
	w.late = time.AfterFunc(patience, func() {
		s.unheard(w, fmt.Errorf("%s did not open the session within %v", address, patience))
	})
	return w, nil
}

// unheard is called when a server did not answer the request to open the session for
// long. If the session may have expired by now, it is given up, too: as long as we came
// back to it, a server that hears us but is not heard would keep it alive, and so all
// that is locked in it. The same server is told to end it, should it be such a one.
func (s *session) unheard(w *wire, why error) {
	if !w.refuse() {
		return
	}
	s.mu.Lock()
	over := s.id != 0 && s.forsaken != s.id && s.clock.Now() >= s.contact.until()
	if over {
		s.forsaken = s.id
	}
	s.mu.Unlock()
	if over {
		s.log.Warn("zookeeper: session given up: the servers do not answer")
		w.post(newCall(opClose))
	}
	w.fail(why)
}

// sessionField is where the id of the session stands in the request to open one:
// behind the length, the version, the last zxid and the timeout.
const sessionField = 4 + 4 + 8 + 4

// opening is shown the library's request to open the session, and makes it one for a
// new session where the old one was given up.
func (s *session) opening(frame []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(frame) < sessionField+8 {
		return
	}
	id := frame[sessionField : sessionField+8]
	if s.forsaken != 0 && binary.BigEndian.Uint64(id) == uint64(s.forsaken) {
		clear(id)
	}
}

func (s *session) secure(ctx context.Context, conn net.Conn, address string) (net.Conn, error) {
	config := s.settings.tls.Clone()
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(address)
	}
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("TLS: %w", err)
	}
	return secured, nil
}

// rest pauses before a round of tries, longer each time, after a round in which no
// server could be used.
func (s *session) rest() error {
	s.mu.Lock()
	rounds := s.failures / s.servers
	due := rounds > 0 && s.failures%s.servers == 0
	s.mu.Unlock()
	var pause time.Duration
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

// failed notes that a server could not be used.
func (s *session) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures++
	s.failure = err
	s.stir()
}

package zookeeper

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// hosts hands the servers to the library in turn. The library's own forgets the name that a certificate is made out
// to, and pauses for a second before it tries a single server again.
type hosts struct{ *session }

func (h hosts) Init(servers []string) error { h.servers = servers; return nil }
func (h hosts) Len() int                    { return len(h.servers) }
func (h hosts) Connected()                  {}

// Next also says whether the library should fail the calls that wait for a connection, pause for
// a second, and look whether it was closed. It should after thirty rounds, ten seconds if there is one server, which
// refuses at once; before that dial pauses.
func (h hosts) Next() (server string, pause bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.servers = append(h.servers[1:], h.servers[0])
	return h.servers[0], h.life.Err() != nil || h.failures >= 30*len(h.servers)
}

// openWithin is how soon a server has to open the session.
const openWithin = 3 * time.Second

// dial connects to a server, for the library, after a pause that is longer after each round of tries. There is always
// one: when somebody else has taken the session and ends it, whoever comes back to it between the two has a connection
// on which the server drops every request without a word.
func (s *session) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	s.mu.Lock()
	last, pause := s.newest, 20*time.Millisecond<<min(s.failures/len(s.servers), 4)
	s.mu.Unlock()
	if last != nil {
		_ = last.Close() // the library does not when the session has expired
	}
	time.Sleep(pause)
	ctx, cancel := context.WithTimeout(s.life, timeout)
	defer cancel()
	dial := new(net.Dialer).DialContext
	if s.tls != nil {
		dial = (&tls.Dialer{Config: s.tls}).DialContext
	}
	conn, err := dial(ctx, network, address)
	if err != nil {
		err = fmt.Errorf("connect to %s: %w", address, err)
		s.closed(nil, err)
		return nil, err
	}
	c := &connection{Conn: conn, session: s, in: bufio.NewReader(conn)}
	c.late = time.AfterFunc(openWithin, func() { c.fail(errLate) })
	s.set(func() { s.newest = c })
	return c, nil
}

// A connection is one connection to a server, as the library sees it. It reads from what passes what the session has to
// know, and does for the library what that cannot:
//
//   - a write never fails: the library, told so while it authenticates again, may block for
//     good. The connection is closed, which it learns by reading;
//   - the server has to open the session soon, and not in ten times the session timeout;
//   - a session that was given up is not gone back to;
//   - watches that are set again are told of a change at once. The library asks for changes after the last one that it
//     knows by then, which an answer may have moved on meanwhile. So it is never told the number of any;
//   - they are set one by one: a server hangs up on a request that is longer than it wants.
type connection struct {
	net.Conn
	session *session
	in      *bufio.Reader
	began   driver.Instant // the request to open the session was sent
	late    *time.Timer    // ends the connection if that is not answered soon
	opened  bool           // it was answered
	frame   int            // bytes of the answer that the library has yet to read
	sent    []request      // that were not answered; session.mu guards it
	end     sync.Once
}

func (c *connection) Close() error { c.fail(net.ErrClosed); return nil }

func (c *connection) fail(err error) {
	c.end.Do(func() {
		_ = c.Conn.Close()
		c.session.closed(c, err)
	})
}

// Read gives an answer to the library, or a part of one.
func (c *connection) Read(p []byte) (n int, err error) {
	if c.frame == 0 {
		err = c.next()
	}
	if err == nil {
		n, err = c.in.Read(p[:min(len(p), c.frame)])
		c.frame -= n
	}
	if err != nil {
		c.fail(err)
	}
	return n, err
}

// next looks at the beginning of an answer: its length, the number of the request, that of the last change, which is
// taken out, and an error. The first answer has the version of the protocol, the timeout and the session's id instead.
func (c *connection) next() error {
	head, err := c.in.Peek(4 + 4 + 8 + 4)
	if err != nil && len(head) < 4 {
		return err
	}
	length := binary.BigEndian.Uint32(head)
	if !c.opened && length > 1<<10 {
		return fmt.Errorf("zookeeper: the answer begins with %q: this is no ZooKeeper server, or it wants TLS", head)
	}
	if err != nil {
		return err
	}
	c.frame = 4 + int(length)
	if !c.opened {
		if _, err := c.in.Peek(c.frame); err != nil { // the library waits without limit for what is missing
			return err
		}
		if !c.late.Stop() {
			return errLate // which the session has been told
		}
		timeout, id := binary.BigEndian.Uint32(head[8:]), binary.BigEndian.Uint64(head[12:])
		c.session.opened(c, int64(id), time.Duration(timeout)*time.Millisecond)
		return nil
	}
	if binary.BigEndian.Uint32(head[4:]) != 1<<32-1 { // which the event of a watch has instead of a request's number
		c.session.answered(c, int64(binary.BigEndian.Uint64(head[8:])), binary.BigEndian.Uint32(head[16:]) == 0)
	}
	clear(head[8:16])
	return nil
}

// leaderOps are the operations for which the leader has to ask a majority: create, delete, set data, multi, and
// create a container.
var leaderOps = []uint32{1, 2, 5, 14, 19}

const (
	opSetAuth    = 100
	opSetWatches = 101
)

// Write takes a request from the library. The first is to open the session: a length, the version of the protocol, the
// last change that is known, the timeout, the session's id, and a password. It opens a new one if that was given up.
func (c *connection) Write(frame []byte) (int, error) {
	s, op, requests := c.session, binary.BigEndian.Uint32(frame[8:]), [][]byte{frame}
	if c.began != 0 && op == opSetWatches {
		requests = splitWatches(frame)
	}
	for _, one := range requests {
		s.mu.Lock()
		now := s.clock.Now()
		if c.began != 0 {
			c.sent = append(c.sent, request{sent: now, op: op})
		} else {
			c.began, one = now, slices.Clone(one)
			binary.BigEndian.PutUint64(one[8:], uint64(s.zxid))
			if s.givenUp {
				clear(one[20:28])
			}
		}
		s.mu.Unlock()
		if _, err := c.Conn.Write(one); err != nil {
			c.fail(err)
		}
	}
	return len(frame), nil
}

// splitWatches returns a request to set watches again as one for each watch. All have its number, and the library takes
// the first answer for the whole. It has a length, the number, the operation, the last change, and three lists.
func splitWatches(frame []byte) (all [][]byte) {
	head, lists, empty := frame[:20], frame[20:], make([]byte, 2*4)
	for list := range 3 {
		n := binary.BigEndian.Uint32(lists)
		lists = lists[4:]
		for range n {
			path := lists[:4+binary.BigEndian.Uint32(lists)]
			lists = lists[len(path):]
			one := slices.Concat(head, empty[:4*list], []byte{0, 0, 0, 1}, path, empty[4*list:])
			binary.BigEndian.PutUint32(one, uint32(len(one)-4))
			all = append(all, one)
		}
	}
	return all
}

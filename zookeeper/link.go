package zookeeper

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/seed80cd6120/locker/driver"
)

// A link is one connection, as the library sees it. It does for the library what that cannot:
//
//   - a write never fails: the library, told so while it authenticates again, may block for
//     good. The connection is closed, which it learns by reading;
//   - the server has to open the session soon, and not in ten times the session timeout;
//   - the session's id and its timeout are read from the server's answer;
//   - a session that was given up is not gone back to;
//   - requests to set watches again are as short as the server may want them, and ask for all
//     changes since the connection began: the library names the last change that it has heard of
//     by then, and what came before that is never told.
type link struct {
	net.Conn           // with TLS, if there is
	raw       net.Conn // without
	home      *session
	address   string
	in        *bufio.Reader
	began     driver.Instant // the request to open the session was sent
	opened    atomic.Bool    // it was answered
	expired   bool           // the answer was that there is no such session
	frame     int            // bytes of the frame that the library is reading
	zxid      []byte         // of the last change known when the connection began
	rewatch   chan struct{}  // closed when the library has asked to set watches again
	rewatched bool           // or will not ask any more; for the goroutine that reads
	asked     sync.Once

	mu    sync.Mutex
	pings []driver.Instant // pings without an answer
	end   sync.Once
}

func (l *link) fail(err error) {
	l.end.Do(func() {
		_ = l.raw.Close()
		l.home.closed(l, err)
	})
}

func (l *link) Close() error {
	l.fail(net.ErrClosed)
	return nil
}

// SetReadDeadline is for the library, but not before the session is open.
func (l *link) SetReadDeadline(t time.Time) error {
	if !l.opened.Load() {
		return nil
	}
	return l.Conn.SetReadDeadline(t)
}

func (l *link) Read(p []byte) (n int, err error) {
	if !l.opened.Load() {
		err = l.open()
	}
	if err == nil && l.frame == 0 {
		err = l.next()
	}
	if err == nil {
		n, err = l.in.Read(p[:min(len(p), l.frame)])
		l.frame -= n
		if l.frame == 0 && l.expired { // the library does not close it
			l.fail(zk.ErrSessionExpired)
		}
	}
	if err != nil {
		l.fail(err)
	}
	return n, err
}

// open looks at the answer to the request to open the session.
func (l *link) open() error {
	// Its length, the version of the protocol, the timeout, and the id.
	head, err := l.in.Peek(4 + 4 + 4 + 8)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		l.home.unheard(l)
		return fmt.Errorf("%s did not open the session: %w", l.address, err)
	case len(head) >= 4 && binary.BigEndian.Uint32(head) > 1<<10:
		return fmt.Errorf("zookeeper: %s begins with %q: this is no ZooKeeper server, or it wants TLS", l.address, head)
	case err != nil:
		return err
	}
	_ = l.Conn.SetReadDeadline(time.Time{})
	l.opened.Store(true)
	l.frame = 4 + int(binary.BigEndian.Uint32(head))
	id := int64(binary.BigEndian.Uint64(head[12:]))
	l.expired = id == 0
	current, _ := l.home.now()
	l.rewatched = id != current // a new session has no watches
	l.home.opened(l, id, time.Duration(binary.BigEndian.Uint32(head[8:]))*time.Millisecond)
	return nil
}

// watchesWithin is how soon after its first answer the library has asked to set watches again, if
// there are any.
const watchesWithin = 50 * time.Millisecond

// next looks at the beginning of a frame. Answers to pings are contact with the server. An answer
// that tells of a change is held back until the watches are set again: the library does
// not synchronise the one with the other.
func (l *link) next() error {
	head, err := l.in.Peek(4 + 4 + 8)
	if err != nil {
		return err
	}
	l.frame = 4 + int(binary.BigEndian.Uint32(head))
	if !l.rewatched && int32(binary.BigEndian.Uint32(head[4:])) >= 0 && binary.BigEndian.Uint64(head[8:]) > 0 {
		select {
		case <-l.rewatch:
		case <-time.After(watchesWithin):
		}
		l.rewatched = true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if binary.BigEndian.Uint32(head[4:]) == xidPing && len(l.pings) > 0 {
		l.home.contact.answer(l.pings[0], l.home.clock.Now(), false)
		l.pings = l.pings[1:]
	}
	return nil
}

// The operations that are looked for in what the library writes, and the one that is added.
const (
	opSetWatches = 101
	opClose      = -11
	xidPing      = 1<<32 - 2 // the number that all pings have
)

// Write takes a frame from the library.
func (l *link) Write(frame []byte) (int, error) {
	var err error
	switch {
	case l.began == 0:
		l.began = l.home.clock.Now()
		l.zxid = append(l.zxid, frame[zxidField:][:8]...)
		_, err = l.Conn.Write(l.home.opening(frame))
	case binary.BigEndian.Uint32(frame[8:]) == opSetWatches:
		frame = append([]byte(nil), frame...)
		copy(frame[4+4+4:], l.zxid)
		l.asked.Do(func() { close(l.rewatch) })
		if len(frame) > maxWatches {
			_, err = l.Conn.Write(splitWatches(frame))
		} else {
			_, err = l.Conn.Write(frame)
		}
	default:
		if binary.BigEndian.Uint32(frame[4:]) == xidPing {
			l.mu.Lock()
			l.pings = append(l.pings, l.home.clock.Now())
			l.mu.Unlock()
		}
		_, err = l.Conn.Write(frame)
	}
	if err != nil {
		l.fail(err)
	}
	return len(frame), nil
}

// Where the last zxid and the id of the session stand in the request to open one: behind the length
// and the version, and behind the timeout.
const (
	zxidField    = 4 + 4
	sessionField = zxidField + 8 + 4
)

// opening returns the request to open the session, as one for a new session where the old one was
// given up.
func (s *session) opening(frame []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	frame = append([]byte(nil), frame...)
	if id := frame[sessionField:][:8]; s.forsaken != 0 && int64(binary.BigEndian.Uint64(id)) == s.forsaken {
		clear(id)
	}
	return frame
}

// unheard is called when a server did not answer the request to open the session for long. If
// the session may have expired by now, it is given up: as long as we came back to it, a server
// that hears us but is not heard would keep it alive, and so all that is locked in it. The same
// server is told to end it, should it be such a one.
func (s *session) unheard(l *link) {
	s.mu.Lock()
	over := s.id != 0 && s.forsaken != s.id && s.clock.Now() >= s.contact.until()
	if over {
		s.forsaken = s.id
	}
	s.mu.Unlock()
	if !over {
		return
	}
	s.log.Warn("zookeeper: session given up: the servers do not answer")
	end := binary.BigEndian.AppendUint32(nil, 8)
	end = binary.BigEndian.AppendUint32(end, 1)
	op := int32(opClose)
	_, _ = l.Conn.Write(binary.BigEndian.AppendUint32(end, uint32(op)))
}

// maxWatches is how long a request to set watches again may be that has several. Servers hang up on requests that
// are longer than they want, the library sends up to 128 KiB, and again after the next connection.
const maxWatches = 2 << 10

// splitWatches returns a request to set watches again as one for each watch, which no server refuses that has
// taken a claim for the same name. All have its number, and the library takes the first answer for the whole.
//
// It has a length, the number, the operation, the last zxid, and three lists of paths.
func splitWatches(frame []byte) (all []byte) {
	const head = 4 + 4 + 4 + 8
	rest := frame[head:]
	for list := range 3 {
		n := binary.BigEndian.Uint32(rest)
		rest = rest[4:]
		for range n {
			path := rest[:4+binary.BigEndian.Uint32(rest)]
			rest = rest[len(path):]
			all = binary.BigEndian.AppendUint32(all, uint32(head-4+3*4+len(path)))
			all = append(all, frame[4:head]...)
			for i := range 3 {
				if i == list {
					all = append(append(all, 0, 0, 0, 1), path...)
				} else {
					all = append(all, 0, 0, 0, 0)
				}
			}
		}
	}
	return all
}

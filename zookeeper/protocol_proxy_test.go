package zookeeper

import (
	"encoding/binary"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
)

// A protocolProxy passes frames between clients and a server, and knows what they say.
type protocolProxy struct {
	l      net.Listener
	target string

	mu       sync.Mutex
	refuse   []int32 // operations that are answered with code
	code     int32
	times    int // how often, 0 for always
	id       int64
	password []byte
	refused  int
	ops      []int32     // that clients asked for
	before   func(int32) // called with each operation before it is passed on, if not nil
	wg       sync.WaitGroup
	open     []net.Conn
}

// newProtocolProxy passes everything on and remembers the last session's id and password.
func newProtocolProxy(t testing.TB, target string) *protocolProxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	return forward(t, l, target)
}

// forward passes on what comes to l.
func forward(t testing.TB, l net.Listener, target string) *protocolProxy {
	m := &protocolProxy{l: l, target: target}
	m.wg.Go(m.accept)
	t.Cleanup(func() {
		_ = l.Close()
		m.cut()
		m.wg.Wait()
	})
	return m
}

// cut ends all connections.
func (m *protocolProxy) cut() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.open {
		_ = c.Close()
	}
	m.open = nil
}

func (m *protocolProxy) addr() string { return m.l.Addr().String() }

func (m *protocolProxy) accept() {
	for {
		c, err := m.l.Accept()
		if err != nil {
			return
		}
		s, err := net.Dial("tcp", m.target)
		if err != nil {
			_ = c.Close()
			continue
		}
		m.mu.Lock()
		m.open = append(m.open, c, s)
		m.mu.Unlock()
		m.wg.Go(func() { m.up(c, s) })
		m.wg.Go(func() { m.down(c, s) })
	}
}

// answerTo is the answer to a request with an error.
func answerTo(request []byte, code int32) []byte {
	b := binary.BigEndian.AppendUint32(nil, 16)
	b = append(b, request[4:8]...)
	b = binary.BigEndian.AppendUint64(b, 0)
	return binary.BigEndian.AppendUint32(b, uint32(code))
}

func readFrame(c net.Conn) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return nil, err
	}
	b := make([]byte, 4+binary.BigEndian.Uint32(size[:]))
	copy(b, size[:])
	_, err := io.ReadFull(c, b[4:])
	return b, err
}

func (m *protocolProxy) refuses(op int32) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ops = append(m.ops, op)
	if !slices.Contains(m.refuse, op) || m.times > 0 && m.refused >= m.times {
		return false
	}
	m.refused++
	return true
}

// session returns the last session's id and password.
func (m *protocolProxy) session() (id int64, password []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.id, m.password
}

// asked counts how often clients asked for op.
func (m *protocolProxy) asked(op int32) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, o := range m.ops {
		if o == op {
			n++
		}
	}
	return n
}

func (m *protocolProxy) up(c, s net.Conn) {
	defer c.Close()
	defer s.Close()
	for first := true; ; first = false {
		b, err := readFrame(c)
		if err != nil {
			return
		}
		op := int32(binary.BigEndian.Uint32(b[8:]))
		if !first && m.refuses(op) {
			_, _ = c.Write(answerTo(b, m.code))
			continue
		}
		m.mu.Lock()
		before := m.before
		m.mu.Unlock()
		if before != nil {
			before(op)
		}
		if _, err := s.Write(b); err != nil {
			return
		}
	}
}

func (m *protocolProxy) down(c, s net.Conn) {
	defer c.Close()
	defer s.Close()
	for first := true; ; first = false {
		b, err := readFrame(s)
		if err != nil {
			return
		}
		if first {
			m.mu.Lock()
			m.id = int64(binary.BigEndian.Uint64(b[12:]))
			m.password = append([]byte(nil), b[24:40]...)
			m.mu.Unlock()
		}
		if _, err := c.Write(b); err != nil {
			return
		}
	}
}

// carries matches requests that came together, for the proxy, by the operation of any of them.
func carries(op int32) func([]byte) bool {
	return func(b []byte) bool {
		for len(b) >= 12 {
			if int32(binary.BigEndian.Uint32(b[8:])) == op {
				return true
			}
			b = b[min(4+int(binary.BigEndian.Uint32(b)), len(b)):]
		}
		return false
	}
}

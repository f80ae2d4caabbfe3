package zookeeper

import (
	"encoding/binary"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
)

// A middleman passes frames between clients and a server, and knows what they say.
type middleman struct {
	l      net.Listener
	target string

	mu       sync.Mutex
	refuse   []int32 // operations that are answered with code
	code     int32
	times    int // how often, 0 for always
	id       int64
	password []byte
	refused  int
	ops      []int32 // that clients asked for
	wg       sync.WaitGroup
	open     []net.Conn
}

// spy passes everything on and remembers the last session's id and password.
func spy(t testing.TB, target string) *middleman { return between(t, target) }

func between(t testing.TB, target string, refuse ...int32) *middleman {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := forward(t, l, target)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refuse, m.code = refuse, -6
	return m
}

// forward passes on what comes to l.
func forward(t testing.TB, l net.Listener, target string) *middleman {
	m := &middleman{l: l, target: target}
	m.wg.Go(m.accept)
	t.Cleanup(func() {
		_ = l.Close()
		m.mu.Lock()
		for _, c := range m.open {
			_ = c.Close()
		}
		m.mu.Unlock()
		m.wg.Wait()
	})
	return m
}

func (m *middleman) addr() string { return m.l.Addr().String() }

func (m *middleman) accept() {
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

func (m *middleman) refuses(op int32) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ops = append(m.ops, op)
	if !slices.Contains(m.refuse, op) || m.times > 0 && m.refused >= m.times {
		return false
	}
	m.refused++
	return true
}

// asked counts how often clients asked for op.
func (m *middleman) asked(op int32) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, o := range m.ops {
		if o == op {
			n++
		}
	}
	return n
}

func (m *middleman) up(c, s net.Conn) {
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
			if m.code == -6 { // and then a server hangs up
				return
			}
			continue
		}
		if _, err := s.Write(b); err != nil {
			return
		}
	}
}

func (m *middleman) down(c, s net.Conn) {
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

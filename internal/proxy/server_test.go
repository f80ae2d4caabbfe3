package proxy

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// server answers each line with "re: " and the line, and remembers what it was told.
type server struct {
	net.Listener
	mu    sync.Mutex
	lines []string
	ends  int // streams that ended in good order
	wg    sync.WaitGroup
	conns []net.Conn
}

func newServer(t *testing.T) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{Listener: l}
	s.wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, conn)
			s.mu.Unlock()
			s.wg.Go(func() { s.serve(conn) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		s.mu.Lock()
		for _, c := range s.conns {
			c.Close()
		}
		s.mu.Unlock()
		s.wg.Wait()
	})
	return s
}

func (s *server) serve(conn net.Conn) {
	defer conn.Close()
	var rest []byte
	buf := make([]byte, 4096)
	for {
		n, err := conn.Read(buf)
		rest = append(rest, buf[:n]...)
		for {
			line, after, ok := bytes.Cut(rest, []byte("\n"))
			if !ok {
				break
			}
			rest = after
			s.mu.Lock()
			s.lines = append(s.lines, string(line))
			s.mu.Unlock()
			_, _ = conn.Write([]byte("re: " + string(line) + "\n"))
		}
		if err != nil {
			s.mu.Lock()
			if errors.Is(err, io.EOF) {
				s.ends++
			}
			s.mu.Unlock()
			return
		}
	}
}

func (s *server) told() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.lines, " ")
}

func newProxy(t *testing.T) (*Proxy, *server) {
	t.Helper()
	s := newServer(t)
	p, err := New(s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if st := p.Stats(); st.Open != 0 || st.HeldUp != 0 || st.HeldDown != 0 {
			t.Errorf("after Close: %+v", st)
		}
	})
	return p, s
}

func connect(t *testing.T, p *Proxy) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func send(t *testing.T, c net.Conn, line string) {
	t.Helper()
	if _, err := io.WriteString(c, line+"\n"); err != nil {
		t.Fatal(err)
	}
}

// ask sends a line and receives the answer.
func ask(t *testing.T, c net.Conn, line string) {
	t.Helper()
	send(t, c, line)
	receive(t, c, "re: "+line)
}

func receive(t *testing.T, c net.Conn, want string) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	got := make([]byte, len(want)+1)
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want+"\n" {
		t.Fatalf("received %q, %v; want %q", got, err, want)
	}
}

// silent fails the test if anything comes within a while.
func silent(t *testing.T, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	var b [1]byte
	var timeout net.Error
	if n, err := c.Read(b[:]); n > 0 || !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Fatalf("read %d bytes, %v; want silence", n, err)
	}
}

// over fails the test unless the connection ends without another byte.
func over(t *testing.T, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	var b [1]byte
	var timeout net.Error
	n, err := c.Read(b[:])
	if n > 0 || err == nil || (errors.As(err, &timeout) && timeout.Timeout()) {
		t.Fatalf("read %d bytes, %v; want the end", n, err)
	}
}

// refused fails the test unless a new connection fails or ends at once.
func refused(t *testing.T, p *Proxy) {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if err == nil {
		defer c.Close()
		over(t, c)
	}
}

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

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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

func receive(t *testing.T, c net.Conn, want string) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
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
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
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

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not seen: " + what)
		}
	}
}

func TestPassesThrough(t *testing.T) {
	p, s := newProxy(t)
	c := connect(t, p)
	for _, line := range []string{"one", "two"} {
		send(t, c, line)
		receive(t, c, "re: "+line)
	}
	big := strings.Repeat("x", 1<<20)
	go func() { _, _ = io.WriteString(c, big+"\n") }()
	receive(t, c, "re: "+big)
	st := p.Stats()
	if want := int64(8 + len(big) + 1); st.BytesUp != want || st.BytesDown != want+3*4 || st.Accepted != 1 || st.Open != 1 {
		t.Errorf("%+v", st)
	}
	c.Close()
	eventually(t, "the end passed on", func() bool { return p.Stats().Open == 0 })
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ends != 1 {
		t.Error("the server did not see the client's end as an end")
	}
}

func TestFreezeUp(t *testing.T) {
	p, s := newProxy(t)
	c := connect(t, p)
	send(t, c, "before")
	receive(t, c, "re: before")
	p.FreezeUp()
	send(t, c, "held")
	silent(t, c)
	if got := s.told(); got != "before" {
		t.Errorf("the server was told %q", got)
	}
	if st := p.Stats(); st.HeldUp != 5 {
		t.Errorf("%+v", st)
	}
	p.Heal()
	receive(t, c, "re: held")
}

func TestFreezeDown(t *testing.T) {
	p, s := newProxy(t)
	c := connect(t, p)
	p.FreezeDown()
	send(t, c, "heard")
	eventually(t, "the request at the server", func() bool { return s.told() == "heard" })
	silent(t, c)
	p.Heal()
	receive(t, c, "re: heard")
}

func TestFreezeMeetsNewConnections(t *testing.T) {
	p, s := newProxy(t)
	p.Freeze()
	c := connect(t, p)
	send(t, c, "held")
	silent(t, c)
	if got := s.told(); got != "" {
		t.Errorf("the server was told %q", got)
	}
	p.Heal()
	receive(t, c, "re: held")
}

func TestHeldBytesOutliveTheClient(t *testing.T) {
	for _, reset := range []bool{false, true} {
		p, s := newProxy(t)
		c := connect(t, p)
		send(t, c, "first")
		receive(t, c, "re: first")
		p.FreezeUp()
		send(t, c, "last")
		eventually(t, "the bytes held", func() bool { return p.Stats().HeldUp == 5 })
		if reset {
			_ = c.(*net.TCPConn).SetLinger(0)
		}
		c.Close()
		p.Heal()
		eventually(t, "the last words delivered", func() bool { return s.told() == "first last" })
		eventually(t, "the connection over", func() bool { return p.Stats().Open == 0 })
	}
}

func TestHeldReplyOutlivesTheServer(t *testing.T) {
	p, s := newProxy(t)
	c := connect(t, p)
	p.FreezeDown()
	send(t, c, "x")
	eventually(t, "the reply held", func() bool { return p.Stats().HeldDown == 6 })
	s.mu.Lock()
	s.conns[0].Close()
	s.mu.Unlock()
	send(t, c, "into the void")
	silent(t, c)
	p.Heal()
	receive(t, c, "re: x")
	over(t, c)
}

func TestCut(t *testing.T) {
	p, _ := newProxy(t)
	a, b := connect(t, p), connect(t, p)
	send(t, a, "x")
	receive(t, a, "re: x")
	p.Freeze()
	send(t, a, "lost")
	eventually(t, "the bytes held", func() bool { return p.Stats().HeldUp == 5 && p.Stats().Open == 2 })
	p.Cut()
	over(t, a)
	over(t, b)
	p.Heal()
	c := connect(t, p)
	send(t, c, "y")
	receive(t, c, "re: y")
}

func TestRefuse(t *testing.T) {
	p, _ := newProxy(t)
	old := connect(t, p)
	send(t, old, "x")
	receive(t, old, "re: x")
	p.Refuse()
	refused(t, p)
	send(t, old, "y")
	receive(t, old, "re: y")
	p.Heal()
	c := connect(t, p)
	send(t, c, "z")
	receive(t, c, "re: z")
}

func TestBlackHole(t *testing.T) {
	p, s := newProxy(t)
	old := connect(t, p)
	send(t, old, "x")
	receive(t, old, "re: x")
	p.BlackHole()
	c := connect(t, p)
	send(t, c, "lost")
	silent(t, c)
	send(t, old, "y")
	receive(t, old, "re: y")
	p.Heal()
	over(t, c)
	if got := s.told(); got != "x y" {
		t.Errorf("the server was told %q", got)
	}
}

func TestDelay(t *testing.T) {
	p, _ := newProxy(t)
	c := connect(t, p)
	const each = 40 * time.Millisecond
	p.Delay(each, each)
	for range 3 {
		start := time.Now()
		send(t, c, "x")
		receive(t, c, "re: x")
		if took := time.Since(start); took < 2*each {
			t.Errorf("there and back in %v", took)
		}
	}
	p.Delay(time.Hour, 0)
	send(t, c, "y")
	silent(t, c)
	p.Heal()
	receive(t, c, "re: y")
}

func TestSwallowReply(t *testing.T) {
	p, s := newProxy(t)
	c, d := connect(t, p), connect(t, p)
	p.SwallowReply(func(b []byte) bool { return bytes.HasPrefix(b, []byte("commit")) }, 0)
	send(t, c, "ping")
	receive(t, c, "re: ping")
	send(t, d, "commit")
	over(t, d)
	if got := s.told(); got != "ping commit" {
		t.Errorf("the server was told %q", got)
	}
	send(t, c, "commit")
	receive(t, c, "re: commit")
	if n := p.Stats().Swallowed; n != 1 {
		t.Errorf("%d swallowed", n)
	}
}

func TestSwallowReplyLingers(t *testing.T) {
	p, _ := newProxy(t)
	c := connect(t, p)
	const linger = 80 * time.Millisecond
	p.SwallowReply(nil, linger)
	start := time.Now()
	send(t, c, "x")
	over(t, c)
	if took := time.Since(start); took < linger {
		t.Errorf("cut after %v", took)
	}
}

func TestServerGone(t *testing.T) {
	p, s := newProxy(t)
	s.Close()
	refused(t, p)
	other := newServer(t)
	p.SetTarget(other.Addr().String())
	c := connect(t, p)
	send(t, c, "x")
	receive(t, c, "re: x")
}

// Everything at once, for the race detector and for what Close leaves behind.
func TestStorm(t *testing.T) {
	p, _ := newProxy(t)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				c, err := net.Dial("tcp", p.Addr())
				if err != nil {
					continue
				}
				_ = c.SetDeadline(time.Now().Add(20 * time.Millisecond))
				_, _ = io.WriteString(c, "x\n")
				_, _ = io.ReadFull(c, make([]byte, 6))
				c.Close()
			}
		})
	}
	acts := []func(){
		p.FreezeUp, p.Heal, p.FreezeDown, p.Cut, p.Heal, p.Refuse, p.Heal, p.BlackHole, p.Heal,
		func() { p.Delay(time.Millisecond, time.Millisecond) },
		func() { p.SwallowReply(nil, time.Millisecond) },
		func() { p.Stats() },
	}
	for i := range 300 {
		acts[i%len(acts)]()
		time.Sleep(time.Millisecond)
	}
	close(stop)
	wg.Wait()
}

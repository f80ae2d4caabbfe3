package zookeeper

import (
	"bufio"
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/servers"
)

// nobody is an address at which nobody listens.
func nobody(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().String()
}

func TestConnectWithoutServer(t *testing.T) {
	addr := nobody(t)
	_, err := Connect(context.Background(), []string{addr, addr})
	if !errors.Is(err, zk.ErrNoServer) || !strings.Contains(err.Error(), "refused") {
		t.Errorf("without a deadline: %v", err)
	}
	start, inTime := time.Now(), locktest.Limit(t, 2*time.Second)
	why := errors.New("long enough")
	ctx, cancel := context.WithTimeoutCause(context.Background(), 400*time.Millisecond, why)
	defer cancel()
	_, err = Connect(ctx, []string{addr})
	inTime("connecting to nobody")
	if took := time.Since(start); took < 350*time.Millisecond {
		t.Errorf("returned after %v", took)
	}
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, why) || !errors.Is(err, zk.ErrNoServer) {
		t.Errorf("with a deadline: %v", err)
	}
	var e *locker.Error
	if !errors.As(err, &e) || e.Op != "open" || e.Backend != "zookeeper" {
		t.Errorf("error: %#v", err)
	}
}

// What listens is no ZooKeeper server.
func TestConnectToSomethingElse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
			_ = c.Close()
		}
	}()
	_, err = Connect(context.Background(), []string{l.Addr().String()})
	if err == nil || !strings.Contains(err.Error(), "no ZooKeeper server") {
		t.Errorf("connect: %v", err)
	}
}

func TestUnknownScheme(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	inTime := locktest.Limit(t, 10*time.Second)
	_, err := Connect(within(t, time.Minute), []string{z.Addr()}, WithAuth("no-such-scheme", nil))
	inTime("connecting")
	if !errors.Is(err, zk.ErrAuthFailed) {
		t.Errorf("connect: %v", err)
	}
}

// unwritable is a connection on which writes fail, and reads wait until it is closed.
type unwritable struct{ net.Conn }

func (unwritable) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

// A write that fails is none that the library is told of: it learns by reading that the connection is over.
func TestWriteNeverFails(t *testing.T) {
	for _, opened := range []bool{false, true} {
		ours, server := net.Pipe()
		defer server.Close()
		s := &session{clock: locker.SystemClock(), log: discard, changed: make(chan struct{}), connected: opened}
		c := &connection{Conn: unwritable{ours}, session: s, in: bufio.NewReader(ours), opened: opened}
		// version, zxid, timeout, session, password: a request to open the session
		frame := protocolFrame(t, int32(0), int64(0), int32(1000), int64(7), make([]byte, 20))
		if opened {
			c.began = s.clock.Now()
			frame = protocolFrame(t, int32(-4), int32(opSetAuth), int32(0), []byte("scheme and credentials"))
		}
		over := make(chan error, 1)
		go func() { _, err := c.Read(make([]byte, 4)); over <- err }()
		if n, err := c.Write(frame); n != len(frame) || err != nil {
			t.Errorf("opened: %v: wrote %d of %d, %v", opened, n, len(frame), err)
		}
		if err := await(t, over, "the end of the read"); err == nil {
			t.Errorf("opened: %v: the read did not fail", opened)
		}
		s.mu.Lock()
		if s.failure == nil || s.connected {
			t.Errorf("opened: %v: the session is not told: connected: %v, %v", opened, s.connected, s.failure)
		}
		s.mu.Unlock()
	}
}

// The library blocks for good when a write fails while it authenticates again. The
// credentials are sent by us, and a write that fails ends the connection.
func TestConnectionsThatBreakWhileAuthenticating(t *testing.T) {
	beside(t)
	z := servers.SharedZooKeeper(t)
	p := front(t, z.Addr())
	l := open(t, []string{p.Addr()}, WithDigest("ann", strings.Repeat("x", 64<<10)))
	for range 10 {
		before := p.Stats()
		p.Cut()
		eventually.Is(t, "a new connection", func() bool { return p.Stats().Accepted > before.Accepted })
	}
	n := name(t)
	lock, err := l.Acquire(within(t, 20*time.Second), n)
	must(t, err)
	if err := freed(context.Background(), lock); err != nil {
		t.Error(err)
	}
}

package zookeeper

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/servers"
)

func TestOptionsThatCannotBeHonoured(t *testing.T) {
	for what, try := range map[string]struct {
		servers []string
		opt     locker.Option
	}{
		"no servers":     {servers: nil},
		"empty server":   {servers: []string{""}},
		"connect string": {servers: []string{"a:1,b:2"}},
		"chroot":         {opt: WithChroot("app")},
		"chroot end":     {opt: WithChroot("/app/")},
		"empty ACL":      {opt: WithACL()},
		"nil TLS":        {opt: WithTLS(nil)},
		"TTL":            {opt: locker.WithTTL(0)},
		"nil":            {opt: nil},
	} {
		addrs, opts := []string{"127.0.0.1:1"}, []locker.Option{try.opt}
		if strings.Contains(what, "server") || what == "connect string" {
			addrs, opts = try.servers, nil
		}
		l, err := Connect(context.Background(), addrs, opts...)
		if !errors.Is(err, locker.ErrInvalidOption) || l != nil {
			t.Errorf("%s: %v, %v", what, l, err)
		}
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Connect(ended, []string{"127.0.0.1:1"}); !errors.Is(err, context.Canceled) {
		t.Errorf("ended context: %v", err)
	}
}

// nobody is an address at which nobody listens.
func nobody(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestConnectWithoutServer(t *testing.T) {
	addr := nobody(t)
	if _, err := Connect(context.Background(), []string{addr, addr}); !errors.Is(err, zk.ErrNoServer) || !strings.Contains(err.Error(), "refused") {
		t.Errorf("without a deadline: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 400*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := Connect(ctx, []string{addr})
	if took := time.Since(start); took < 350*time.Millisecond || took > 2*time.Second {
		t.Errorf("returned after %v", took)
	}
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, zk.ErrNoServer) {
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
	if err != nil {
		t.Fatal(err)
	}
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
	if _, err := Connect(context.Background(), []string{l.Addr().String()}); err == nil || !strings.Contains(err.Error(), "no ZooKeeper server") {
		t.Errorf("connect: %v", err)
	}
}

func TestChrootsHaveNothingToDoWithEachOther(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op := console(t, z.Addr())
	n := name(t)
	a, b := open(t, []string{z.Addr()}, WithChroot("/deep/er/a")), open(t, []string{z.Addr()}, WithChroot("/deep/er/b"))
	first, err := a.Acquire(within(t, time.Minute), n)
	if err != nil {
		t.Fatal(err)
	}
	second, err := b.TryAcquire(within(t, time.Minute), n)
	if err != nil {
		t.Fatal(err)
	}
	if there, _, err := op.Exists(queuePath("/deep/er/a"+folder, n)); !there {
		t.Errorf("the queue is not where it was asked for: %v", err)
	}
	if _, err := open(t, []string{z.Addr()}, WithChroot("/deep/er/a")).TryAcquire(within(t, time.Minute), n); !errors.Is(err, locker.ErrNotAcquired) {
		t.Errorf("same chroot: %v", err)
	}
	_, _ = first.Release(context.Background()), second.Release(context.Background())
}

// Nodes belong to whoever authenticated; the credentials are given again on every
// connection and in every session.
func TestDigestAndACL(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op := console(t, z.Addr())
	for _, acl := range [][]zk.ACL{zk.AuthACL(zk.PermAll), zk.DigestACL(zk.PermAll, "ann", "secret")} {
		chroot := fmt.Sprintf("/acl%d", counter.Add(1))
		mine := []locker.Option{WithChroot(chroot), WithDigest("ann", "secret"), WithACL(acl...)}
		s := spy(t, z.Addr())
		l, d := both(t, []string{s.addr()}, mine...)
		n := name(t)
		held, err := l.Acquire(within(t, time.Minute), n)
		if err != nil {
			t.Fatal(err)
		}
		for _, other := range [][]locker.Option{{WithChroot(chroot)}, {WithChroot(chroot), WithDigest("ann", "wrong")}} {
			thief := open(t, []string{z.Addr()}, other...)
			for what, acquire := range map[string]func(context.Context, string, ...locker.AcquireOption) (*locker.Lock, error){"acquire": thief.Acquire, "try": thief.TryAcquire} {
				if _, err := acquire(within(t, time.Minute), n); !errors.Is(err, zk.ErrNoAuth) || !strings.Contains(err.Error(), chroot) {
					t.Errorf("%s without permission: %v", what, err)
				}
			}
		}
		if _, _, err := op.Get(queuePath(chroot+folder, n)); !errors.Is(err, zk.ErrNoAuth) {
			t.Errorf("others may read: %v", err)
		}
		d.cut()
		if err := held.Release(within(t, time.Minute)); err != nil {
			t.Errorf("release on another connection: %v", err)
		}
		steal(t, z.Addr(), d, s.id, s.password)
		again, err := l.Acquire(within(t, time.Minute), n)
		if err != nil {
			t.Fatalf("in another session: %v", err)
		}
		if err := again.Release(within(t, time.Minute)); err != nil {
			t.Error(err)
		}
	}
}

// The library blocks for good when a write fails while it authenticates again. The
// credentials are sent by us, and a write that fails ends the connection.
func TestConnectionsThatBreakWhileAuthenticating(t *testing.T) {
	beside(t)
	z := servers.SharedZooKeeper(t)
	p := inFront(t, z.Addr())
	l := open(t, []string{p.Addr()}, WithDigest("ann", strings.Repeat("x", 64<<10)))
	for range 10 {
		before := p.Stats()
		p.Cut()
		eventually.Is(t, "a new connection", func() bool { return p.Stats().Accepted > before.Accepted })
	}
	n := name(t)
	lock, err := l.Acquire(within(t, 20*time.Second), n)
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Release(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestUnknownScheme(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	start := time.Now()
	if _, err := Connect(within(t, time.Minute), []string{z.Addr()}, WithAuth("no-such-scheme", nil)); !errors.Is(err, zk.ErrAuthFailed) {
		t.Errorf("connect: %v", err)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("after %v", took)
	}
}

// secure puts what ends TLS in front of a server, and returns its address and who
// signed its certificate.
func secure(t *testing.T, target string) (addr string, roots *x509.CertPool) {
	t.Helper()
	cert, client, err := servers.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}})
	if err != nil {
		t.Fatal(err)
	}
	return forward(t, l, target).addr(), client.RootCAs
}

func TestTLS(t *testing.T) {
	beside(t)
	plain := servers.SharedZooKeeper(t).Addr()
	addr, roots := secure(t, plain)
	n := name(t)
	l := open(t, []string{addr}, WithTLS(&tls.Config{RootCAs: roots}))
	lock, err := l.Acquire(within(t, time.Minute), n)
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Release(context.Background()); err != nil {
		t.Error(err)
	}
	other := open(t, []string{plain})
	held, err := other.Acquire(within(t, time.Minute), n)
	if err != nil {
		t.Fatal(err)
	}
	turn := make(chan error, 1)
	go func() {
		lock, err := l.Acquire(within(t, time.Minute), n)
		if err == nil {
			err = lock.Release(context.Background())
		}
		turn <- err
	}()
	console(t, plain).length(n, 2)
	if err := held.Release(within(t, time.Minute)); err != nil {
		t.Error(err)
	}
	if err := await(t, turn, "turn over TLS"); err != nil {
		t.Error(err)
	}

	var unknown *tls.CertificateVerificationError
	if _, err := Connect(context.Background(), []string{addr}, WithTLS(&tls.Config{RootCAs: x509.NewCertPool()})); !errors.As(err, &unknown) {
		t.Errorf("unknown authority: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if _, err := Connect(ctx, []string{plain}, WithTLS(&tls.Config{RootCAs: roots})); err == nil {
		t.Error("TLS to a port without")
	}
	if _, err := Connect(ctx, []string{addr}); err == nil {
		t.Error("no TLS to a port that wants it")
	}
}

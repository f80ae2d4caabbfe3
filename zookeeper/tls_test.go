package zookeeper

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/servers"
)

// secure puts what ends TLS in front of a server, and returns its address and who
// signed its certificate.
func secure(t *testing.T, target string) (addr string, roots *x509.CertPool) {
	t.Helper()
	cert, client, err := servers.Certificate()
	must(t, err)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}})
	must(t, err)
	return forward(t, l, target).addr(), client.RootCAs
}

func TestTLS(t *testing.T) {
	beside(t)
	plain := servers.SharedZooKeeper(t).Addr()
	addr, roots := secure(t, plain)
	n := name(t)
	l := open(t, []string{addr}, WithTLS(&tls.Config{RootCAs: roots}))
	lock, err := l.Acquire(within(t, time.Minute), n)
	must(t, err)
	if err := freed(context.Background(), lock); err != nil {
		t.Error(err)
	}
	other := open(t, []string{plain})
	held, err := other.Acquire(within(t, time.Minute), n)
	must(t, err)
	turn := make(chan error, 1)
	go func() {
		lock, err := l.Acquire(within(t, time.Minute), n)
		if err == nil {
			err = freed(context.Background(), lock)
		}
		turn <- err
	}()
	console(t, plain).length(n, 2)
	if err := freed(within(t, time.Minute), held); err != nil {
		t.Error(err)
	}
	if err := await(t, turn, "turn over TLS"); err != nil {
		t.Error(err)
	}

	var unknown *tls.CertificateVerificationError
	eventually.Is(t, "an unknown authority to be told", func() bool { // a handshake may take too long
		_, err := Connect(context.Background(), []string{addr}, WithTLS(&tls.Config{RootCAs: x509.NewCertPool()}))
		if err == nil {
			t.Fatal("unknown authority")
		}
		return errors.As(err, &unknown)
	})
	if _, err := Connect(within(t, time.Second), []string{plain}, WithTLS(&tls.Config{RootCAs: roots})); err == nil {
		t.Error("TLS to a port without")
	}
	if _, err := Connect(within(t, time.Second), []string{addr}); err == nil {
		t.Error("no TLS to a port that wants it")
	}
}

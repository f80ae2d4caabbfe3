package faults

import (
	"crypto/tls"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/seed80cd6120/locker/internal/servers"
)

// behindTLS has a row run on servers in front of which something ends TLS.
func behindTLS(b Backend) Backend {
	start := b.Start
	b.Start = func(t testing.TB) *Servers {
		s := start(t)
		cert, client, err := servers.Certificate()
		if err != nil {
			t.Fatal(err)
		}
		s.Access.Via = make(map[string]string)
		for _, addr := range s.reached() {
			if s.Access.Via[addr], err = endTLS(t, cert, addr); err != nil {
				t.Fatal(err)
			}
		}
		s.Access.tls = func(string) *tls.Config { return client }
		return s
	}
	return b
}

// endTLS listens for TLS and passes on what comes to target in plain text, until t ends.
func endTLS(t testing.TB, cert tls.Certificate, target string) (addr string, err error) {
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{cert},
	})
	if err != nil {
		return "", err
	}
	var all sync.WaitGroup
	t.Cleanup(func() {
		_ = listener.Close()
		all.Wait()
	})
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { pass(conn, target) })
		}
	})
	return listener.Addr().String(), nil
}

// pass carries bytes both ways until one side hangs up.
func pass(conn net.Conn, target string) {
	defer conn.Close()
	to, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer to.Close()
	var up sync.WaitGroup
	up.Go(func() {
		_, _ = io.Copy(to, conn)
		_ = to.Close()
	})
	_, _ = io.Copy(conn, to)
	_ = conn.Close()
	up.Wait()
}

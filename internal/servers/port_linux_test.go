package servers

import (
	"errors"
	"net"
	"os"
	"testing"
)

func TestPortIsHeldBack(t *testing.T) {
	p, err := newPort()
	must(t, err)
	defer p.release()
	if conn, err := net.Dial("tcp", p.addr()); err == nil {
		conn.Close()
		t.Error("a reserved port answers")
	}
	for range 2000 {
		l, err := net.Listen("tcp", host+":0")
		must(t, err)
		same := l.Addr().String() == p.addr()
		l.Close()
		if same {
			t.Fatal("the system gave a reserved port away")
		}
	}
	for range 2 { // who asks for it by number gets it, again and again
		l, err := net.Listen("tcp", p.addr())
		must(t, err)
		l.Close()
	}
}

func TestPortOwner(t *testing.T) {
	p, err := newPort()
	must(t, err)
	defer p.release()
	if err := p.ownedBy(os.Getpid()); err == nil {
		t.Error("a port on which nobody listens has an owner")
	}
	for _, addr := range []string{p.addr(), "[::1]:" + p.String()} {
		l, err := net.Listen("tcp", addr)
		if err != nil && addr != p.addr() {
			t.Logf("no IPv6: %v", err)
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		if err := p.ownedBy(os.Getpid()); err != nil {
			t.Errorf("our own listener at %s: %v", addr, err)
		}
		if err := p.ownedBy(os.Getppid()); !errors.Is(err, errPortTaken) {
			t.Errorf("a listener at %s taken for the parent's: %v", addr, err)
		}
		l.Close()
	}
}

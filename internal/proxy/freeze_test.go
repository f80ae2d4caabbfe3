package proxy

import (
	"net"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/internal/eventually"
)

func TestFreezeUp(t *testing.T) {
	p, s := newProxy(t)
	c := connect(t, p)
	ask(t, c, "before")
	p.FreezeUp()
	send(t, c, "held")
	eventually.Within(t, 10*time.Second, "the bytes held", func() bool { return p.Stats().HeldUp == 5 })
	silent(t, c)
	if got := s.told(); got != "before" {
		t.Errorf("the server was told %q", got)
	}
	p.Heal()
	receive(t, c, "re: held")
}

func TestFreezeDown(t *testing.T) {
	p, s := newProxy(t)
	c := connect(t, p)
	p.FreezeDown()
	send(t, c, "heard")
	eventually.Within(t, 10*time.Second, "the request at the server", func() bool { return s.told() == "heard" })
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
		ask(t, c, "first")
		p.FreezeUp()
		send(t, c, "last")
		eventually.Within(t, 10*time.Second, "the bytes held", func() bool { return p.Stats().HeldUp == 5 })
		if reset {
			_ = c.(*net.TCPConn).SetLinger(0)
		}
		c.Close()
		p.Heal()
		eventually.Within(t, 10*time.Second, "the last words delivered", func() bool { return s.told() == "first last" })
		eventually.Within(t, 10*time.Second, "the connection over", func() bool { return p.Stats().Open == 0 })
	}
}

func TestHeldReplyOutlivesTheServer(t *testing.T) {
	p, s := newProxy(t)
	c := connect(t, p)
	p.FreezeDown()
	send(t, c, "x")
	eventually.Within(t, 10*time.Second, "the reply held", func() bool { return p.Stats().HeldDown == 6 })
	s.mu.Lock()
	s.conns[0].Close()
	s.mu.Unlock()
	send(t, c, "into the void")
	silent(t, c)
	p.Heal()
	receive(t, c, "re: x")
	over(t, c)
}

func TestBlackHole(t *testing.T) {
	p, s := newProxy(t)
	old := connect(t, p)
	ask(t, old, "x")
	p.BlackHole()
	c := connect(t, p)
	eventually.Within(t, 10*time.Second, "the connection in the hole", func() bool { return p.Stats().Open == 2 })
	send(t, c, "lost")
	silent(t, c)
	ask(t, old, "y")
	p.Heal()
	over(t, c)
	if got := s.told(); got != "x y" {
		t.Errorf("the server was told %q", got)
	}
}

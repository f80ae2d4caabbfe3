package proxy

import (
	"bytes"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/internal/eventually"
)

func TestCut(t *testing.T) {
	p, _ := newProxy(t)
	a, b := connect(t, p), connect(t, p)
	ask(t, a, "x")
	p.Freeze()
	send(t, a, "lost")
	eventually.Within(t, 10*time.Second, "the bytes held", func() bool { return p.Stats().HeldUp == 5 && p.Stats().Open == 2 })
	p.Cut()
	over(t, a)
	over(t, b)
	p.Heal()
	c := connect(t, p)
	ask(t, c, "y")
}

func TestRefuse(t *testing.T) {
	p, _ := newProxy(t)
	old := connect(t, p)
	ask(t, old, "x")
	p.Refuse()
	refused(t, p)
	ask(t, old, "y")
	p.Heal()
	c := connect(t, p)
	ask(t, c, "z")
}

func TestServerGone(t *testing.T) {
	p, s := newProxy(t)
	s.Close()
	refused(t, p)
	other := newServer(t)
	p.SetTarget(other.Addr().String())
	c := connect(t, p)
	ask(t, c, "x")
}

func TestSwallowReply(t *testing.T) {
	p, s := newProxy(t)
	c, d := connect(t, p), connect(t, p)
	p.SwallowReply(func(b []byte) bool { return bytes.HasPrefix(b, []byte("commit")) }, 0)
	ask(t, c, "ping")
	send(t, d, "commit")
	over(t, d)
	if got := s.told(); got != "ping commit" {
		t.Errorf("the server was told %q", got)
	}
	ask(t, c, "commit")
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

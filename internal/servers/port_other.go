//go:build !linux

package servers

import (
	"net"
	"time"
)

func newPort() (*port, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, err
	}
	defer l.Close()
	return &port{number: l.Addr().(*net.TCPAddr).Port}, nil
}

// ownedBy cannot look up the owner here; that somebody listens while the child lives
// must do.
func (p *port) ownedBy(int) error {
	c, err := net.DialTimeout("tcp", p.addr(), time.Second)
	if err != nil {
		return err
	}
	return c.Close()
}

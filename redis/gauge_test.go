package redis

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// gauge makes connections and counts what waiters do that read themselves: how often they
// begin, and how often they are stopped.
type gauge struct {
	led, stops atomic.Int32
	mu         sync.Mutex
	last       net.Conn // of a waiter that read
}

type gauged struct {
	net.Conn
	*gauge
}

func (g *gauge) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &gauged{conn, g}, nil
}

func (g *gauged) SetReadDeadline(at time.Time) error {
	if left := time.Until(at); at.Unix() == 1 {
		g.stops.Add(1)
	} else if left > 0 && left <= leading {
		g.led.Add(1)
		g.mu.Lock()
		g.last = g.Conn
		g.mu.Unlock()
	}
	return g.Conn.SetReadDeadline(at)
}

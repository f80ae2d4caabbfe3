// Package proxy is a TCP proxy that stands in front of a server and does to its
// connections what networks do: freeze either direction, delay, cut, swallow a reply.
//
//	p, err := proxy.New(server.Addr())
//	defer p.Close()
//	client := connect(p.Addr())
//	p.FreezeDown()   // requests arrive, replies are held
//	...
//	p.Heal()         // what was held is delivered
//
// It holds back bytes, and the end of a stream, without limit and in order, and
// never loses any of them unless it is told to: what a client wrote before it went away
// is delivered on Heal. All methods may be called at any time from several goroutines
// and act on the connections there are and on those to come.
package proxy

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

// Stats are counts since the proxy was made, except Open and Held, which are of now.
type Stats struct {
	Accepted, Open     int
	BytesUp, BytesDown int64 // delivered to the server, to clients
	HeldUp, HeldDown   int64 // read and not yet delivered
	Swallowed          int   // replies dropped by SwallowReply
}

// The two directions: from clients to the server and back.
const (
	up = iota
	down
)

// Proxy listens at an address of its own and passes everything on to a server.
type Proxy struct {
	listener net.Listener
	ctx      context.Context // ends with Close
	stop     context.CancelFunc
	wg       sync.WaitGroup

	mu      sync.Mutex
	changed chan struct{} // closed and replaced whenever what follows changes
	target  string
	frozen  [2]bool
	delay   [2]time.Duration
	refuse  bool
	hole    bool
	swallow []swallow
	conns   map[*conn]bool
	stats   Stats
	bytes   [2]int64
	held    [2]int64
}

type swallow struct {
	match  func(request []byte) bool
	linger time.Duration
}

// New returns a proxy in front of the server at target, listening on this machine at a
// port of the system's choosing.
func New(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		listener: l,
		target:   target,
		changed:  make(chan struct{}),
		conns:    map[*conn]bool{},
	}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.wg.Go(p.accept)
	return p, nil
}

// Addr returns host:port of the proxy.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// FreezeUp holds what clients send, and their going away, until Heal.
func (p *Proxy) FreezeUp() { p.change(func() { p.frozen[up] = true }) }

// FreezeDown holds what the server sends until Heal.
func (p *Proxy) FreezeDown() { p.change(func() { p.frozen[down] = true }) }

// Freeze holds both directions. New connections are accepted and frozen too.
func (p *Proxy) Freeze() { p.change(func() { p.frozen = [2]bool{true, true} }) }

// Delay holds every byte for so long, in each direction; zero ends it and delivers what
// waits.
func (p *Proxy) Delay(toServer, toClient time.Duration) {
	p.change(func() { p.delay = [2]time.Duration{toServer, toClient} })
}

// Refuse makes new connections fail: each is reset as soon as it is made, which a
// client may learn from connecting or only from the first use.
func (p *Proxy) Refuse() { p.change(func() { p.refuse = true }) }

// BlackHole makes new connections hang: each is accepted, what it sends is thrown away,
// and nothing ever answers. Heal cuts the connections made meanwhile. Connections that
// were there go on; freeze them too if the server is to be out of reach.
func (p *Proxy) BlackHole() { p.change(func() { p.hole = true }) }

// SwallowReply lets the next request that matches through to the server, throws away
// what comes back on its connection from then on, and cuts the connection once
// something came back and linger has passed since the request. The client thus never
// learns what became of it. With match nil any bytes are a request; a linger of zero
// suits protocols that send nothing but replies. Calls add up: two swallow two
// replies. Heal does not end it.
func (p *Proxy) SwallowReply(match func(request []byte) bool, linger time.Duration) {
	p.change(func() { p.swallow = append(p.swallow, swallow{match, linger}) })
}

// Heal ends Freeze, Refuse, BlackHole and Delay: what was held is delivered, in order.
func (p *Proxy) Heal() {
	p.change(func() {
		p.frozen, p.delay, p.refuse, p.hole = [2]bool{}, [2]time.Duration{}, false, false
		for c := range p.conns {
			if c.hole {
				c.cutLocked()
			}
		}
	})
}

// Cut closes all connections now. What was held for them is lost.
func (p *Proxy) Cut() {
	p.change(func() {
		for c := range p.conns {
			c.cutLocked()
		}
	})
}

// SetTarget sends connections made from now on to another server.
func (p *Proxy) SetTarget(addr string) { p.change(func() { p.target = addr }) }

// Stats returns what has passed.
func (p *Proxy) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.Open = len(p.conns)
	s.BytesUp, s.BytesDown = p.bytes[up], p.bytes[down]
	s.HeldUp, s.HeldDown = p.held[up], p.held[down]
	return s
}

// LeftOpen describes the connections that their clients have not ended: who the client is, and whether the server has ended its
// side. Stats counts the others, too: a server may keep what its client has ended. ZooKeeper 3.8.0 never closes a connection that
// ends while the server starts.
func (p *Proxy) LeftOpen() (all []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		if c.side[up].ended {
			continue
		}
		state := "the server has not answered yet"
		if c.side[down].from != nil {
			state = fmt.Sprintf("ended by the server: %v", c.side[down].ended)
		}
		all = append(all, fmt.Sprintf("%s to %s, %s", c.side[up].from.RemoteAddr(), c.target, state))
	}
	return all
}

// Close cuts all connections, stops listening, and returns when no goroutine is left.
func (p *Proxy) Close() error {
	p.stop()
	err := p.listener.Close()
	p.Cut()
	p.wg.Wait()
	return err
}

func (p *Proxy) change(do func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	do()
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if p.ctx.Err() != nil {
			if err == nil {
				client.Close()
			}
			return
		}
		if err != nil {
			// Out of file descriptors, or the client went before it was accepted.
			select {
			case <-time.After(10 * time.Millisecond):
			case <-p.ctx.Done():
			}
			continue
		}
		p.mu.Lock()
		p.stats.Accepted++
		if p.refuse || p.ctx.Err() != nil {
			p.mu.Unlock()
			_ = client.(*net.TCPConn).SetLinger(0)
			client.Close()
			continue
		}
		c := &conn{p: p, done: make(chan struct{}), hole: p.hole, target: p.target}
		c.side[up].from = client
		p.conns[c] = true
		p.mu.Unlock()
		p.wg.Go(c.run)
	}
}

package proxy

import (
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// conn is one connection of a client and the one to the server that belongs to it.
type conn struct {
	p      *Proxy
	target string
	hole   bool
	done   chan struct{} // closed when the connection is cut

	// All below is guarded by the proxy's mutex, but for the reading and writing itself.
	side       [2]side
	cut        bool
	swallowing bool
	cutAt      time.Time // when swallowing: not before
	serverGone bool      // a write to it failed
	toldClient bool      // that the server ended the stream
}

// side is one direction: a queue between who reads and who writes.
type side struct {
	from, to net.Conn
	queue    []chunk
	ended    bool          // nothing more will be read
	arrived  chan struct{} // wakes the writer
}

type chunk struct {
	b   []byte
	due time.Time
}

func (c *conn) run() {
	defer func() {
		c.p.mu.Lock()
		defer c.p.mu.Unlock()
		c.cutLocked()
		delete(c.p.conns, c)
	}()
	client := c.side[up].from
	if c.hole {
		_, _ = io.Copy(io.Discard, client)
		<-c.done // the client may have left; that is told to nobody
		return
	}
	var d net.Dialer
	server, err := d.DialContext(c.p.ctx, "tcp", c.target)
	if err != nil {
		_ = client.(*net.TCPConn).SetLinger(0)
		return
	}
	c.p.mu.Lock()
	c.side[up].to, c.side[down].from, c.side[down].to = server, server, client
	c.side[up].arrived, c.side[down].arrived = make(chan struct{}, 1), make(chan struct{}, 1)
	if c.cut {
		server.Close()
	}
	c.p.mu.Unlock()

	var wg sync.WaitGroup
	for dir := range c.side {
		wg.Go(func() { c.read(dir) })
		wg.Go(func() { c.write(dir) })
	}
	wg.Wait()
}

// cutLocked closes both ends; the goroutines then end by themselves.
func (c *conn) cutLocked() {
	if c.cut {
		return
	}
	c.cut = true
	close(c.done)
	for dir := range c.side {
		for _, k := range c.side[dir].queue {
			c.p.held[dir] -= int64(len(k.b))
		}
		c.side[dir].queue = nil
		if from := c.side[dir].from; from != nil {
			from.Close()
		}
	}
}

// read queues what comes until the stream ends. It never waits for the other side, so
// that what a client wrote is safe even if the client then goes.
func (c *conn) read(dir int) {
	buf := make([]byte, 32<<10)
	for {
		n, err := c.side[dir].from.Read(buf)
		c.arrive(dir, buf[:n], err != nil)
		if err != nil {
			return
		}
	}
}

func (c *conn) arrive(dir int, b []byte, ended bool) {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	s := &c.side[dir]
	if len(b) > 0 && !c.cut {
		s.queue = append(s.queue, chunk{slices.Clone(b), time.Now().Add(c.p.delay[dir])})
		c.p.held[dir] += int64(len(b))
	}
	s.ended = s.ended || ended
	select {
	case s.arrived <- struct{}{}:
	default: // it is being woken
	}
}

// write delivers the queue as far as the proxy's state lets it.
func (c *conn) write(dir int) {
	to := c.side[dir].to
	var precise sleeper
	for {
		b, ended, changed, wait, early := c.next(dir)
		switch {
		case early > 0:
			precise.sleep(early)
		case ended:
			_ = to.(*net.TCPConn).CloseWrite()
			c.delivered(dir, 0, nil, true)
			return
		case b != nil:
			// A client that is gone does not keep what it sent from arriving, nor a
			// server that is gone what it answered: the rest is thrown away.
			n, err := to.Write(b)
			c.delivered(dir, n, err, false)
		default:
			select {
			case <-changed:
			case <-wait:
			case <-c.side[dir].arrived:
			case <-c.done:
				return
			}
		}
	}
}

// delivered counts, and cuts a connection whose server is gone once the client has
// what the server left.
func (c *conn) delivered(dir, n int, err error, ended bool) {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	c.p.bytes[dir] += int64(n)
	if dir == up && err != nil {
		c.serverGone = true
	}
	if dir == down && ended {
		c.toldClient = true
	}
	if c.serverGone && c.toldClient {
		c.cutLocked()
	}
}

// timerError is by how much a timer may be late on an idle machine.
const timerError = 2 * time.Millisecond

// next says what write is to do: deliver bytes, pass the end on, wait, or sleep, because it is early by less than timerError.
func (c *conn) next(dir int) (b []byte, ended bool, changed <-chan struct{}, wait <-chan time.Time, early time.Duration) {
	p := c.p
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &c.side[dir]
	switch {
	case c.cut || p.frozen[dir] || (len(s.queue) == 0 && !s.ended):
		return nil, false, p.changed, nil, 0
	case len(s.queue) == 0:
		return nil, true, nil, nil, 0
	}
	k := s.queue[0]
	if early := time.Until(k.due); early > 0 && p.delay[dir] > 0 {
		if early > timerError {
			return nil, false, p.changed, time.After(early - timerError), 0
		}
		return nil, false, nil, nil, early
	}
	if dir == down && c.swallowing {
		if early := time.Until(c.cutAt); early > 0 {
			return nil, false, p.changed, time.After(early), 0
		}
		p.stats.Swallowed++
		c.cutLocked()
		return nil, false, p.changed, nil, 0
	}
	if dir == up && len(p.swallow) > 0 && !c.swallowing {
		if w := p.swallow[0]; w.match == nil || w.match(k.b) {
			p.swallow = p.swallow[1:]
			c.swallowing, c.cutAt = true, time.Now().Add(w.linger)
		}
	}
	s.queue = s.queue[1:]
	p.held[dir] -= int64(len(k.b))
	return k.b, false, nil, nil, 0
}

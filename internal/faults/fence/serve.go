package fence

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
)

type request struct {
	Op     string
	Name   string
	Token  int64
	Holder string
	Was    int64
}

type reply struct {
	N     int64
	Stale bool
	Err   string
}

// Server lets other processes use a Resource.
type Server struct {
	dir      string
	listener net.Listener
	wg       sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool // nil once closed
}

// Serve makes r available at the Server's address.
func (r *Resource) Serve() (*Server, error) {
	dir, err := os.MkdirTemp("", "locker-fence-")
	if err != nil {
		return nil, fmt.Errorf("fence: %w", err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("fence: %w", err), os.RemoveAll(dir))
	}
	s := &Server{dir: dir, listener: l, conns: make(map[net.Conn]bool)}
	s.wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if !s.add(conn) {
				conn.Close()
				return
			}
			s.wg.Go(func() {
				defer s.remove(conn)
				r.talk(conn)
			})
		}
	})
	return s, nil
}

// Addr is what to give to Dial.
func (s *Server) Addr() string { return s.listener.Addr().String() }

func (s *Server) add(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns == nil {
		return false
	}
	s.conns[conn] = true
	return true
}

func (s *Server) remove(conn net.Conn) {
	s.mu.Lock()
	delete(s.conns, conn)
	s.mu.Unlock()
	conn.Close()
}

// Close ends all connections and returns when no goroutine is left.
func (s *Server) Close() error {
	err := s.listener.Close()
	s.mu.Lock()
	for conn := range s.conns {
		conn.Close()
	}
	s.conns = nil
	s.mu.Unlock()
	s.wg.Wait()
	return errors.Join(err, os.RemoveAll(s.dir))
}

func (r *Resource) talk(conn io.ReadWriter) {
	in, out := json.NewDecoder(conn), json.NewEncoder(conn)
	for {
		var q request
		if in.Decode(&q) != nil {
			return
		}
		var a reply
		var err error
		switch q.Op {
		case "open":
			a.N, err = r.Open(q.Name, q.Token, q.Holder)
		case "write":
			err = r.Write(q.Name, q.Token, q.Holder, q.Was)
		default:
			err = fmt.Errorf("fence: unknown operation %q", q.Op)
		}
		if err != nil {
			a.Err, a.Stale = err.Error(), errors.Is(err, ErrStale)
		}
		if out.Encode(a) != nil {
			return
		}
	}
}

// Client uses the Resource of another process, in the same way as that process does.
type Client struct {
	mu   sync.Mutex
	conn net.Conn
	in   *json.Decoder
	out  *json.Encoder
}

// Dial connects to a Server.
func Dial(addr string) (*Client, error) {
	conn, err := net.Dial("unix", addr)
	if err != nil {
		return nil, fmt.Errorf("fence: %w", err)
	}
	return &Client{conn: conn, in: json.NewDecoder(conn), out: json.NewEncoder(conn)}, nil
}

// Open is that of Resource.
func (c *Client) Open(name string, token int64, holder string) (n int64, err error) {
	a, err := c.ask(request{Op: "open", Name: name, Token: token, Holder: holder})
	return a.N, err
}

// Write is that of Resource.
func (c *Client) Write(name string, token int64, holder string, was int64) error {
	_, err := c.ask(request{Op: "write", Name: name, Token: token, Holder: holder, Was: was})
	return err
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }

func (c *Client) ask(q request) (reply, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var a reply
	if err := c.out.Encode(q); err != nil {
		return a, fmt.Errorf("fence: %w", err)
	}
	if err := c.in.Decode(&a); err != nil {
		return a, fmt.Errorf("fence: %w", err)
	}
	switch {
	case a.Stale:
		return a, fmt.Errorf("%w (%s)", ErrStale, a.Err)
	case a.Err != "":
		return a, errors.New(a.Err)
	}
	return a, nil
}

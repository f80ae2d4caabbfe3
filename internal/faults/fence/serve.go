package fence

import (
	"errors"
	"fmt"
	"net"
	"net/rpc"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// Request is what a Client asks of a Server.
type Request struct {
	Name   string
	Token  int64
	Holder string
	Was    int64
}

// service has the methods of a Resource in the form of package rpc.
type service struct{ r *Resource }

func (s service) Open(q Request, n *int64) (err error) {
	*n, err = s.r.Open(q.Name, q.Token, q.Holder)
	return err
}

func (s service) Write(q Request, _ *struct{}) error {
	return s.r.Write(q.Name, q.Token, q.Holder, q.Was)
}

// Server lets other processes use a Resource.
type Server struct {
	dir      string
	listener net.Listener
	wg       sync.WaitGroup

	mu     sync.Mutex
	conns  []net.Conn
	closed bool
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
	s := &Server{dir: dir, listener: l}
	calls := rpc.NewServer()
	if err := calls.RegisterName("fence", service{r}); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, conn)
			if s.closed {
				conn.Close()
			}
			s.mu.Unlock()
			s.wg.Go(func() { calls.ServeConn(conn) })
		}
	})
	return s, nil
}

// Addr is what to give to Dial.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Close ends all connections and returns when no goroutine is left.
func (s *Server) Close() error {
	err := s.listener.Close()
	s.mu.Lock()
	s.closed = true
	for _, conn := range s.conns {
		conn.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
	return errors.Join(err, os.RemoveAll(s.dir))
}

// Client uses the Resource of another process, in the same way as that process does.
type Client struct{ *rpc.Client }

// Dial connects to a Server.
func Dial(addr string) (*Client, error) {
	c, err := rpc.Dial("unix", addr)
	if err != nil {
		return nil, fmt.Errorf("fence: %w", err)
	}
	return &Client{c}, nil
}

// Open is that of Resource.
func (c *Client) Open(name string, token int64, holder string) (n int64, err error) {
	err = c.Call("fence.Open", Request{Name: name, Token: token, Holder: holder}, &n)
	return n, staleAgain(err)
}

// Write is that of Resource.
func (c *Client) Write(name string, token int64, holder string, was int64) error {
	err := c.Call("fence.Write", Request{Name: name, Token: token, Holder: holder, Was: was}, &struct{}{})
	return staleAgain(err)
}

// staleAgain makes an ErrStale of the text that came of one.
func staleAgain(err error) error {
	if err == nil {
		return nil
	}
	if more, stale := strings.CutPrefix(err.Error(), ErrStale.Error()); stale {
		return fmt.Errorf("%w%s", ErrStale, more)
	}
	return fmt.Errorf("fence: %w", err)
}

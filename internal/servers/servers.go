// Package servers starts real servers for tests and for the comparison program:
// redis-server (one, several, replicated, Sentinel, Cluster), ZooKeeper (one, an
// ensemble), etcd (one, a cluster), PostgreSQL (one, with standbys, behind
// PgBouncer) and MariaDB (one).
//
// In a test:
//
//	func TestX(t *testing.T) {
//		r := servers.SharedRedis(t)                         // one per test binary, started by whoever asks first
//		r := servers.NewRedis(t, servers.RedisOptions{})    // a fresh one, gone when t ends
//		client := goredis.NewClient(&goredis.Options{Addr: r.Addr()})
//		...
//		r.Pause()      // SIGSTOP
//		r.Resume()     // SIGCONT
//		r.Kill()       // SIGKILL
//		r.Restart(ctx) // the same address, the same data
//	}
//
// Every New function skips its test under "go test -short" and otherwise fails it,
// with one line that says what to run, when a program is missing. A program that is
// no test uses the Start functions, which take a context and return an error, and
// calls [Server.Close] or [StopAll] at the end.
//
// # What is promised
//
// The ports are the system's choice and stay reserved while a server is down, so
// that a restart finds its port free. Start returns when the server answers
// its protocol and its listener is known to be the process that was started. Data
// lives in a temporary folder. On Linux the servers end with the process that
// started them however that ends, SIGKILL included. Nothing is ever signalled that
// was not started here.
//
// # Servers that run already
//
// PostgreSQL and MariaDB are always started here. For the others: addresses
// (host:port, separated by commas) in LOCKER_REDIS, LOCKER_ZOOKEEPER and
// LOCKER_ETCD are used instead of starting: where one plain server is asked for the
// first of them, where n are asked for the first n. Such a server is not ours: Kill,
// Stop, Pause, Resume and Restart return [ErrNotOurs], and it is neither emptied nor
// stopped. A server with options, a replica, a Sentinel or a Redis Cluster is always
// started here.
package servers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/seed80cd6120/locker/internal/child"
)

var (
	// ErrNotOurs is returned when something is to be done to a server that was not
	// started here but given by its address.
	ErrNotOurs = errors.New("servers: this server was given by its address, not started here")

	// ErrMissing is returned when a program that is needed is not installed. The
	// message is one line that says what to run.
	ErrMissing = errors.New("servers: program missing")

	// ErrNotRunning is returned when a signal is to be sent to a server that is down.
	ErrNotRunning = errors.New("servers: the server is not running")
)

// StartTimeout bounds each start of a server, whatever the context allows.
const StartTimeout = 90 * time.Second

// stopTimeout is how long a server may take to end cleanly before it is killed.
const stopTimeout = 10 * time.Second

// Server is what all servers have in common: an address, a process behind it, and
// what can be done to it. Its methods may be called from several goroutines.
type Server struct {
	kind  string // "redis", "zookeeper", "etcd", "postgres", "pgbouncer", "mariadb"
	addr  string
	given bool
	dir   string  // everything of this server
	data  string  // what RestartEmpty removes, inside dir
	ports []*port // the first is the one that clients connect to
	certs *certs  // nil without TLS

	command  func() (bin string, args []string, err error)
	ready    func(ctx context.Context) error          // one try: does it serve?
	requests func(ctx context.Context) (int64, error) // since the process started
	starting func()                                   // called before each start
	notEmpty string                                   // why it cannot be started without its data, "" if it can
	user     *user                                    // whom the process runs as, nil for the user of this one
	family   bool                                     // the program has children, which signals are meant for, too
	respawn  bool                                     // it is started again when it ends by itself

	mu   sync.Mutex
	args []string // further arguments of the program
	proc *child.Process
	gone bool // closed for good
}

// Addr returns host:port of the listener for clients. It never changes.
func (s *Server) Addr() string { return s.addr }

// Given reports whether the server was given by its address instead of started here.
func (s *Server) Given() bool { return s.given }

// TLSConfig returns what a client needs to connect, with a certificate of its own, or
// nil if the server does not speak TLS.
func (s *Server) TLSConfig() *tls.Config {
	if s.certs == nil {
		return nil
	}
	return s.certs.conf.Clone()
}

// CAFile returns the path of the certificate, in PEM form, by which a client trusts the server, or ""
// if it does not speak TLS.
func (s *Server) CAFile() string {
	if s.certs == nil {
		return ""
	}
	return s.certs.ca
}

// PID returns the process id, or 0 if the server is down or not ours.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil || !s.proc.Running() {
		return 0
	}
	return s.proc.PID()
}

// Dir returns the folder in which the server keeps its data and its log, or "" if
// the server is not ours.
func (s *Server) Dir() string { return s.dir }

// Log returns the end of what the server has written to its log, at most 8 KiB.
func (s *Server) Log() string {
	if s.given {
		return ""
	}
	return tail(s.logPath(), 8<<10)
}

// Kill ends the server with SIGKILL and returns when it is gone. It works on a paused
// server; on one that is down it does nothing.
func (s *Server) Kill() error { return s.end(syscall.SIGKILL) }

// Stop ends the server cleanly with SIGTERM and returns when it is gone. It works on a
// paused server; one that takes longer than ten seconds is killed.
func (s *Server) Stop() error { return s.end(syscall.SIGTERM) }

// Pause stops the server in its tracks with SIGSTOP. Its connections stay open and
// the system goes on accepting new ones in its name, but nothing answers.
func (s *Server) Pause() error { return s.signal(syscall.SIGSTOP) }

// Resume lets a paused server go on.
func (s *Server) Resume() error { return s.signal(syscall.SIGCONT) }

// Restart stops the server if it runs (cleanly; after Kill it is down already) and
// starts it again at the same address on the same data. It returns when the server
// serves again. A member of a group may have to wait for others in order to serve: see
// [Server.RestartNoWait].
func (s *Server) Restart(ctx context.Context) error {
	if err := s.restart(ctx, false); err != nil {
		return err
	}
	return s.WaitReady(ctx)
}

// RestartNoWait is Restart, but returns as soon as the server listens, although it may
// still be loading its data or waiting for a quorum.
func (s *Server) RestartNoWait(ctx context.Context) error { return s.restart(ctx, false) }

// RestartEmpty is Restart without the data: what the server had stored is gone.
func (s *Server) RestartEmpty(ctx context.Context) error {
	if err := s.restart(ctx, true); err != nil {
		return err
	}
	return s.WaitReady(ctx)
}

// SetArgs replaces the further arguments of the program, those of the options, from the
// next restart on. ZooKeeper takes none.
func (s *Server) SetArgs(args ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.args = slices.Clone(args)
}

// WaitReady waits until the server serves clients, and fails at once if it has ended.
func (s *Server) WaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, StartTimeout)
	defer cancel()
	err := Poll(ctx, func(ctx context.Context) error {
		if !s.given && s.PID() == 0 {
			return final(fmt.Errorf("it is down; its log ends:\n%s", s.Log()))
		}
		return s.ready(ctx)
	})
	if err != nil {
		return fmt.Errorf("wait for %s at %s: %w", s.kind, s.addr, err)
	}
	return nil
}

// Requests returns how many requests of clients the server has handled since its
// process started (Redis: since the first call, and anew after an error), as counted by the server itself and less
// what this package sent. What counts as one is said at [Redis], [ZooKeeper] and [Etcd].
// Take the difference of two calls.
func (s *Server) Requests(ctx context.Context) (int64, error) { return s.requests(ctx) }

// Close ends the server for good, by SIGKILL, and removes its data and its log. On a
// server that is not ours it does nothing.
func (s *Server) Close() error {
	if s.given {
		return nil
	}
	err := s.Kill()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return err
	}
	s.gone = true
	for _, p := range s.ports {
		p.release()
	}
	forget(s)
	removeSegment(s.data)
	return errors.Join(err, os.RemoveAll(s.dir))
}

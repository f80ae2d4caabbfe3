package conformance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/rpc"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/proxy"
	"github.com/seed80cd6120/locker/memory"
)

// The memory store behind a socket: a backend that has everything a real one has,
// other processes, connections to be cut and a server to be stopped, without a
// server to be installed. It lets the whole suite be tested.

type server struct {
	store    *memory.Store
	driver   driver.Driver
	listener net.Listener
	requests atomic.Int64

	mu     sync.Mutex
	away   bool // between stop and start
	conns  map[net.Conn]bool
	claims map[string]*served
	over   map[string]bool // IDs that have been abandoned

	// Defects, for the test of the suite itself.
	token     func(int64) int64
	ttl       func(*Call) time.Duration
	byName    bool          // Release and Abandon free whoever holds the name
	renewsAll bool          // Renew of one is for all who hold the name
	keepsDead bool          // a claim whose client is gone waits for its turn
	resurrect bool          // Renew takes the name again if it was lost
	forgets   bool          // all locks and queues at a restart
	back      time.Duration // how long it takes to be back after a start
	slow      time.Duration // how long a release takes after a restart
	starts    atomic.Int64
}

// served is one claim at the server.
type served struct {
	claim  *driver.Claim
	askers int // requests that wait for the grant; guarded by server.mu
	cancel context.CancelFunc
	done   chan struct{}
	grant  driver.Grant
	err    error
	wanted atomic.Bool
}

const secret = "sesame"

func startServer(t testing.TB) *server {
	store := memory.NewStore()
	s := &server{
		store:  store,
		driver: store.Driver(locker.TimeClock{}),
		conns:  make(map[net.Conn]bool),
		claims: make(map[string]*served),
		over:   make(map[string]bool),
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.listener = l
	s.start()
	go s.serve()
	t.Cleanup(func() {
		s.stop()
		l.Close()
	})
	return s
}

// serve serves connections while the server is there, and closes those that come while it is away: its port stays its own.
func (s *server) serve() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		if s.away {
			conn.Close()
		} else {
			s.conns[conn] = true
			go func() {
				s.serveConn(conn)
				s.mu.Lock()
				delete(s.conns, conn)
				s.mu.Unlock()
			}()
		}
		s.mu.Unlock()
	}
}

func (s *server) serveConn(conn net.Conn) {
	ended, end := context.WithCancel(context.Background())
	r := rpc.NewServer()
	if err := r.RegisterName("Store", &service{s, ended}); err != nil {
		panic(err)
	}
	r.ServeConn(&connection{conn, end})
}

// connection tells when its client is gone: ServeConn returns only when all requests have been answered.
type connection struct {
	net.Conn
	end context.CancelFunc
}

func (c *connection) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		c.end()
	}
	return n, err
}

func (s *server) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.starts.Add(1) == 1 || s.back == 0 {
		s.away = false
		return
	}
	time.AfterFunc(s.back, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.away = false
	})
}

func (s *server) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = true
	if s.forgets {
		clear(s.claims)
		for held := s.store.Holders(); len(held) > 0; held = s.store.Holders() { // also those who waited
			for _, h := range held {
				s.store.Destroy(h.Name)
			}
		}
	}
	for conn := range s.conns {
		conn.Close()
	}
}

// service is what can be called from outside, over one connection.
type service struct {
	*server
	ended context.Context // with the connection
}

type Call struct {
	Secret, Name, ID, Owner string
	IDs                     []string
	Weight, Limit, Spare    int32
	Wait, Lease             bool
	TTL, More               time.Duration
}

type Answer struct {
	Token, Spare int64
	Held, Wanted []bool
	Left         []time.Duration
	Names        []string
	Positions    []driver.Position
}

var errSecret = errors.New("wrong secret")

func (s *service) Acquire(in *Call, out *Answer) error {
	s.requests.Add(1)
	if in.Secret != secret {
		return errSecret
	}
	s.mu.Lock()
	if s.over[in.ID] {
		s.mu.Unlock()
		return driver.ErrGone
	}
	c := s.claims[in.ID]
	if c == nil {
		c = s.begin(in)
	}
	c.askers++
	s.mu.Unlock()
	select {
	case <-c.done:
	case <-s.ended.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		c.askers--
		time.AfterFunc(c.claim.TTL, func() { s.passOver(in.ID, c) })
		return rpc.ErrShutdown
	}
	out.Token, out.Spare = c.grant.Token, c.grant.Spare
	if s.token != nil {
		out.Token = s.token(out.Token)
	}
	return c.err
}

// passOver takes a claim that waits out of the queue if no client asks for it any more.
func (s *service) passOver(id string, c *served) {
	s.mu.Lock()
	forsaken := c.askers == 0 && s.claims[id] == c && !isClosed(c.done) && !s.keepsDead
	if forsaken {
		delete(s.claims, id)
	}
	s.mu.Unlock()
	if forsaken {
		c.cancel()
		<-c.done
		_ = s.driver.Abandon(context.Background(), c.claim)
	}
}

func (s *service) begin(in *Call) *served {
	ctx, cancel := context.WithCancel(context.Background())
	c := &served{
		cancel: cancel,
		done:   make(chan struct{}),
	}
	c.claim = &driver.Claim{
		Name: in.Name, ID: in.ID, Owner: in.Owner, TTL: in.TTL, Lease: in.Lease, Wait: in.Wait,
		Weight: in.Weight, Limit: in.Limit, Spare: in.Spare,
		Wanted: func() { c.wanted.Store(true) },
	}
	if s.ttl != nil {
		c.claim.TTL = s.ttl(in)
	}
	s.claims[in.ID] = c
	go func() {
		defer close(c.done)
		c.grant, c.err = s.driver.Acquire(ctx, c.claim)
		if errors.Is(c.err, driver.ErrTaken) {
			s.mu.Lock()
			delete(s.claims, in.ID)
			s.mu.Unlock()
		}
	}()
	return c
}

func (s *service) Renew(in *Call, out *Answer) error {
	s.requests.Add(1)
	n := len(in.IDs)
	out.Held, out.Wanted, out.Left = make([]bool, n), make([]bool, n), make([]time.Duration, n)
	for i, id := range in.IDs {
		s.mu.Lock()
		c := s.claims[id]
		s.mu.Unlock()
		if c != nil {
			s.driver.Renew(context.Background(), []*driver.Claim{c.claim}, func(_ *driver.Claim, until driver.Instant, err error) {
				out.Held[i], out.Left[i] = err == nil, until.Sub(locker.TimeClock{}.Now())
			})
			out.Wanted[i] = c.wanted.Load()
			s.renewOthers(c)
			if s.resurrect && !out.Held[i] {
				_, err := s.driver.Acquire(context.Background(), &driver.Claim{Name: c.claim.Name, TTL: c.claim.TTL, Weight: driver.All, Limit: driver.All})
				out.Held[i], out.Left[i] = err == nil, c.claim.TTL
			}
		}
	}
	return nil
}

// renewOthers is a defect.
func (s *service) renewOthers(c *served) {
	if !s.renewsAll {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.claims {
		select {
		case <-other.done:
			longer := *other.claim
			longer.TTL = c.claim.TTL
			if other.claim.Name == c.claim.Name && other.err == nil {
				s.driver.Renew(context.Background(), []*driver.Claim{&longer}, func(*driver.Claim, driver.Instant, error) {})
			}
		default: // it waits
		}
	}
}

func (s *service) Release(in *Call, _ *Answer) error {
	s.requests.Add(1)
	if s.starts.Load() > 1 {
		time.Sleep(s.slow)
	}
	return s.end(in, s.driver.Release)
}

func (s *service) Linger(in *Call, _ *Answer) error {
	s.requests.Add(1)
	return s.end(in, func(ctx context.Context, c *driver.Claim) error {
		return s.driver.(driver.Lingerer).Linger(ctx, c, in.More)
	})
}

func (s *service) Lighten(in *Call, _ *Answer) error {
	s.requests.Add(1)
	s.mu.Lock()
	c := s.claims[in.ID]
	s.mu.Unlock()
	if c == nil {
		return driver.ErrGone
	}
	return s.driver.(driver.Weigher).Lighten(context.Background(), c.claim, in.Weight)
}

func (s *service) Look(in *Call, out *Answer) (err error) {
	s.requests.Add(1)
	out.Positions, err = s.driver.(driver.Inspector).Look(context.Background(), in.Name)
	return err
}

func (s *service) Names(in *Call, out *Answer) error {
	s.requests.Add(1)
	for name, err := range s.driver.(driver.Inspector).Names(context.Background(), in.Name) {
		if err != nil {
			return err
		}
		out.Names = append(out.Names, name)
	}
	return nil
}

func (s *service) Evict(in *Call, _ *Answer) error {
	s.requests.Add(1)
	return s.driver.(driver.Evictor).Evict(context.Background(), in.Name, in.ID)
}

func (s *service) Abandon(in *Call, _ *Answer) error {
	s.requests.Add(1)
	return s.end(in, s.driver.Abandon)
}

func (s *service) end(in *Call, how func(context.Context, *driver.Claim) error) error {
	s.mu.Lock()
	c := s.claims[in.ID]
	delete(s.claims, in.ID)
	s.over[in.ID] = true
	s.mu.Unlock()
	if s.byName && s.store.Destroy(in.Name) {
		return nil
	}
	if c == nil {
		return how(context.Background(), &driver.Claim{})
	}
	c.cancel()
	<-c.done
	return how(context.Background(), c.claim)
}

func remoteHarness(t testing.TB) *Harness { return startServer(t).harness(t, nil) }

func (s *server) harness(t testing.TB, wrap wrapper) *Harness {
	addr := s.listener.Addr().String()
	return &Harness{
		Address: addr,
		Open: func(_ context.Context, opts ...locker.Option) (locker.Locker, error) {
			return dialRemote(addr, secret, wrap, opts...)
		},
		OpenLink: func(_ context.Context, opts ...locker.Option) (locker.Locker, Link, error) {
			p, err := proxy.New(addr)
			if err != nil {
				return nil, Link{}, err
			}
			t.Cleanup(func() { p.Close() })
			l, err := dialRemote(p.Addr(), secret, wrap, opts...)
			return l, Link{
				Freeze: p.Freeze,
				Mute:   p.FreezeDown,
				Cut:    func() { p.Refuse(); p.Cut() },
				Heal:   p.Heal,
			}, err
		},
		Destroy: func(_ context.Context, name string) error {
			if !s.store.Destroy(name) {
				return fmt.Errorf("%q is not held", name)
			}
			return nil
		},
		Leftovers: func(context.Context, string) (left []string, err error) {
			for _, h := range s.store.Holders() {
				left = append(left, h.Name)
			}
			if n := s.store.Len() - len(left); n > 0 {
				left = append(left, fmt.Sprintf("%d queues", n))
			}
			return left, nil
		},
		Requests: func(context.Context) (int64, error) { return s.requests.Load(), nil },
		Stop:     func(context.Context) error { s.stop(); return nil },
		Start:    func(context.Context) error { s.start(); return nil },
		Misconfigured: map[string]func(context.Context, ...locker.Option) (locker.Locker, error){
			"wrong secret": func(_ context.Context, opts ...locker.Option) (locker.Locker, error) {
				return dialRemote(addr, "mellon", wrap, opts...)
			},
		},
	}
}

func remoteBackend() Backend {
	return Backend{
		New: remoteHarness,
		Dial: func(_ context.Context, addr string, opts ...locker.Option) (locker.Locker, error) {
			return dialRemote(addr, secret, nil, opts...)
		},
		Fair: true, Fenced: true, Shared: true, Permits: true, Downgrade: true, Inspect: true, Evict: true, AtLeast: true,
		Durable: true, Private: true, RequireAll: true,
		TTL: 700 * time.Millisecond,
	}
}

func TestRemote(t *testing.T) {
	if testing.Short() {
		t.Skip("the memory backend passes the same cases")
	}
	b := remoteBackend()
	b.oneKind = true // the memory backend, which is what there is at the server, passes them all for all kinds
	Run(t, b)
}

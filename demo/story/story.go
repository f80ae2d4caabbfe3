// Package story is what the page shows: three clients that take one lock, the server that
// keeps it, and a store that refuses writes that come late.
package story

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/memory"
)

const (
	name    = "orders/42"
	clients = 3
)

var errConnection = errors.New("connection refused")

// Story is the clients, the server and the store. All methods return at once and may be called from
// any goroutine.
type Story struct {
	ttl   time.Duration
	start time.Time

	mu      sync.Mutex
	server  *memory.Store
	reader  locker.Locker // for State, on the server
	tokens  int64         // the server's tokens are above this one
	clients []*client
	store   store
	log     []Line
}

// client is one of those who want the lock.
type client struct {
	name   string
	conn   *connection
	cancel context.CancelFunc // of the acquisition that is under way; nil if none is
	held   *holding           // nil if it has no lock
	paused bool
	sent   []write // while paused: what has not yet arrived at the store
	writes int
}

// connection is a client's Locker on one server.
type connection struct {
	locker locker.Locker
	link   *memory.Link
	tokens int64
}

// holding is a lock that a client has, and over which connection.
type holding struct {
	lock  *locker.Lock
	conn  *connection
	token int64
}

// New returns a story whose locks are held for ttl after each renewal.
func New(ttl time.Duration) (*Story, error) {
	s := &Story{ttl: ttl, start: time.Now()}
	for i := range clients {
		s.clients = append(s.clients, &client{name: fmt.Sprintf("client %d", i+1)})
	}
	return s, s.startServer(0)
}

// startServer connects everybody to a new server, which knows no locks. Its tokens are above the one given.
func (s *Story) startServer(tokens int64) (err error) {
	s.server = memory.NewStore(locker.WithTTL(s.ttl))
	s.tokens = tokens
	if s.reader, err = s.server.Locker(); err != nil {
		return err
	}
	for _, c := range s.clients {
		l, link, err := s.server.Remote(locker.WithOwner(c.name))
		if err != nil {
			return err
		}
		if c.paused {
			link.Freeze()
		}
		c.conn = &connection{l, link, s.tokens}
	}
	return nil
}

// Acquire has client i take the lock, or wait for it. It does nothing if the client has it or waits already.
func (s *Story) Acquire(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.clients[i]; c.held == nil && c.cancel == nil && !c.paused {
		s.say(c.name, "asks for the lock")
		s.acquire(c)
	}
}

func (s *Story) acquire(c *client) {
	ctx, cancel := context.WithCancel(context.Background())
	conn := c.conn
	c.cancel = cancel
	go func() {
		defer cancel()
		lock, err := conn.locker.Acquire(ctx, name)
		s.mu.Lock()
		defer s.mu.Unlock()
		if c.conn != conn { // there is another server, which the client has asked instead
			conn.close()
			return
		}
		c.cancel = nil
		if err != nil {
			s.say(c.name, "no longer waits")
			return
		}
		held := &holding{lock, conn, conn.tokens + lock.Token()}
		c.held = held
		s.say(c.name, "has the lock, token %d", held.token)
		context.AfterFunc(lock.Context(), func() { s.ended(c, held) })
	}()
}

// ended notes that the context of a lock is over: the lock was lost, or released.
func (s *Story) ended(c *client, held *holding) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.held == held {
		c.held = nil
		s.say(c.name, "context ended: %s", reason(held.lock))
	}
	if c.conn != held.conn {
		held.conn.close()
	}
}

func reason(lock *locker.Lock) string {
	if cause := context.Cause(lock.Context()); !errors.Is(cause, locker.ErrLost) {
		return cause.Error()
	}
	return "lock lost"
}

// Release has client i release the lock, or stop waiting for it.
func (s *Story) Release(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.clients[i]
	switch {
	case c.paused:
	case c.held != nil:
		held := c.held
		c.held = nil
		s.say(c.name, "releases the lock")
		go held.lock.Release(context.Background())
	case c.cancel != nil:
		c.cancel()
	}
}

// Pause holds back all that client i sends, renewals and writes, until the next call of Pause.
func (s *Story) Pause(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.clients[i]
	c.paused = !c.paused
	if c.paused {
		s.say(c.name, "is paused: nothing that it sends arrives")
		c.conn.link.Freeze()
		return
	}
	s.say(c.name, "goes on")
	c.conn.link.Heal()
	for _, w := range c.sent {
		s.arrive(w)
	}
	c.sent = nil
}

// Write has client i send a value to the store, with the token of its lock.
func (s *Story) Write(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.clients[i]
	if c.held == nil || c.held.lock.Context().Err() != nil {
		s.say(c.name, "does not write: it has no lock")
		return
	}
	c.writes++
	w := write{fmt.Sprintf("%s, write %d", c.name, c.writes), c.held.token}
	s.say(c.name, "sends %q with token %d", w.value, w.token)
	if c.paused {
		c.sent = append(c.sent, w)
		return
	}
	s.arrive(w)
}

func (s *Story) arrive(w write) {
	if s.store.accept(w) {
		s.say("store", "accepted: %q, token %d", w.value, w.token)
	} else {
		s.say("store", "refused: token %d is older than %d", w.token, s.store.last.token)
	}
}

// FailOver replaces the server with one that has never heard of the lock, as when a Redis primary dies before its
// replica has received it. Nobody reaches the old server any more; those who waited there ask the
// new one. Who held the lock learns of it by its deadline: the worst case, for often the next renewal tells.
func (s *Story) FailOver() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.say("server", "fails: a replica that has not received the locks takes its place")
	old, reader := make(map[*client]*connection), s.reader
	for _, c := range s.clients {
		old[c] = c.conn
		c.conn.link.Cut(errConnection)
	}
	// Its tokens start from the time, as those of Redis do, so that they are above all that the old server gave.
	if err := s.startServer(time.Since(s.start).Milliseconds()); err != nil {
		return err
	}
	go reader.Close(context.Background())
	for _, c := range s.clients {
		switch {
		case c.cancel != nil:
			c.cancel()
			s.acquire(c)
		case c.held == nil || c.held.conn != old[c]:
			old[c].close()
		}
	}
	return nil
}

// close ends a connection to a server that is no longer there.
func (c *connection) close() {
	c.link.Heal()
	go c.locker.Close(context.Background())
}

// Close ends everything that the story has begun.
func (s *Story) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.clients {
		if c.held != nil && c.held.conn != c.conn {
			c.held.conn.close()
		}
		c.conn.close()
	}
	go s.reader.Close(context.Background())
}

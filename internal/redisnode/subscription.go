package redisnode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker/driver"
)

const (
	// silent is how long the server may say nothing before it is asked whether it is there, and
	// pong how long it may take to answer that.
	silent = 30 * time.Second
	pong   = 5 * time.Second
	// MinPause and MaxPause are the times between attempts at something that fails.
	MinPause = 50 * time.Millisecond
	MaxPause = time.Second
)

// Event is news for a claim that waits. The zero value tells it to look, which is to ask for the
// name again: its subscription was interrupted, its entry was removed from the queue.
type Event struct {
	// Granted: the server made the claim the holder at Now by its clock, in microseconds.
	Granted      bool
	Token, Spare int64
	Now          int64
	// Received is when the news came.
	Received driver.Instant
	// In, if not zero, is when to look.
	In time.Duration
}

// subscriptions are the channels on which the claims of one node are told news: one channel, in a
// Cluster one for each bucket in which something has waited. In a Cluster the channels of one server
// share a connection.
type subscriptions struct {
	n *Node

	mu       sync.Mutex
	channels map[string]*channel
	lines    map[string]*line  // by the server's address
	claims   map[string]*Claim // those that have waited and have not ended
}

// channel is one subscription, from its first waiter on.
type channel struct {
	name, key string // key is one of the bucket's, to find the server
	waiters   map[*Claim]struct{}
	line      *line
	up        bool  // the server has confirmed that it will tell us
	ended     bool  // it was given up
	err       error // why it is not up
	changed   chan struct{}
}

// line is a connection on which a server tells us news. go-redis would repair it silently; here it
// is replaced when it breaks, so that nobody misses what happened in between.
type line struct {
	server string
	pubsub *goredis.PubSub
	ctx    context.Context
	cancel context.CancelFunc
	reader sync.Once
}

func newSubscriptions(n *Node) *subscriptions {
	return &subscriptions{
		n:        n,
		channels: make(map[string]*channel),
		lines:    make(map[string]*line),
		claims:   make(map[string]*Claim),
	}
}

// Join has c told news by tell, which must not block, until Leave. See Ready.
func (n *Node) Join(c *Claim, tell func(Event)) {
	s := n.subs
	s.mu.Lock()
	defer s.mu.Unlock()
	ch := s.channels[c.Channel]
	if ch == nil {
		ch = &channel{name: c.Channel, key: c.clock, waiters: make(map[*Claim]struct{}), changed: make(chan struct{})}
		s.channels[c.Channel] = ch
		n.working.Go(func() { s.attach(ch, 0) })
	}
	c.sub, c.tell = ch, tell
	ch.waiters[c] = struct{}{}
	s.claims[c.ID] = c
}

// Leave ends what Join began. Until Forget the claim is known as one that may hold its name.
func (n *Node) Leave(c *Claim) {
	n.subs.mu.Lock()
	defer n.subs.mu.Unlock()
	if c.sub != nil {
		delete(c.sub.waiters, c)
		c.sub, c.tell = nil, nil
	}
}

// Forget ends a claim: should it be granted the name from now on that is given back.
func (n *Node) Forget(c *Claim) {
	n.subs.mu.Lock()
	defer n.subs.mu.Unlock()
	delete(n.subs.claims, c.ID)
}

// Listening reports whether the server has confirmed that it will tell c news, or another claim of
// the same channel.
func (n *Node) Listening(c *Claim) bool {
	n.subs.mu.Lock()
	defer n.subs.mu.Unlock()
	ch := n.subs.channels[c.Channel]
	return ch != nil && ch.up
}

// Ready waits until the server has confirmed that it will tell c, which has joined, news. It
// returns an error if that cannot be, or ctx has ended: then what is in the way, if that is known.
func (n *Node) Ready(ctx context.Context, c *Claim) error {
	for {
		n.subs.mu.Lock()
		ch := c.sub
		if ch == nil {
			n.subs.mu.Unlock()
			return context.Canceled // it has left
		}
		up, ended, err, changed := ch.up, ch.ended, ch.err, ch.changed
		n.subs.mu.Unlock()
		if up {
			return nil
		}
		if ended {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return cmp.Or(err, ctx.Err())
		}
	}
}

// change sets the state of a channel. It wants mu.
func (ch *channel) change(up bool, err error) {
	ch.up, ch.err = up, err
	close(ch.changed)
	ch.changed = make(chan struct{})
}

// failed notes why a channel is not up; it reports whether to try again. A channel for which no
// repetition helps is given up: those who come later begin anew. It wants mu.
func (s *subscriptions) failed(ch *channel, err error) bool {
	if ch.ended = !Transient(err) || s.n.life.Err() != nil; ch.ended {
		delete(s.channels, ch.name)
	}
	ch.change(false, err)
	return !ch.ended
}

// hangUp closes a line. It wants mu.
func (s *subscriptions) hangUp(ln *line) {
	if s.lines[ln.server] == ln {
		delete(s.lines, ln.server)
	}
	ln.cancel()
	s.n.working.Go(func() { _ = ln.pubsub.Close() })
}

// close ends all subscriptions.
func (s *subscriptions) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ln := range s.lines {
		s.hangUp(ln)
	}
}

// attach subscribes to a channel after a pause, and again until that has succeeded. What the server
// says to it comes to receive.
func (s *subscriptions) attach(ch *channel, pause time.Duration) {
	for {
		select {
		case <-time.After(pause):
		case <-s.n.life.Done():
		}
		ln, err := s.line(ch)
		if err == nil {
			if s.n.cluster != nil {
				err = ln.pubsub.SSubscribe(ln.ctx, ch.name)
			} else {
				err = ln.pubsub.Subscribe(ln.ctx, ch.name)
			}
		}
		if err == nil {
			ln.reader.Do(func() { s.n.working.Go(func() { s.read(ln) }) })
			return
		}
		s.mu.Lock()
		ch.line = nil
		if ln != nil {
			s.hangUp(ln)
		}
		again := s.failed(ch, fmt.Errorf("subscribe: %w", explain(err)))
		s.mu.Unlock()
		if !again {
			return
		}
		pause = min(max(2*pause, MinPause), MaxPause)
	}
}

// line returns the connection to the server of a channel.
func (s *subscriptions) line(ch *channel) (*line, error) {
	server, subscribe := "", s.n.client.Subscribe
	if s.n.cluster != nil {
		master, err := s.n.cluster.MasterForKey(s.n.life, ch.key)
		if err != nil {
			return nil, err
		}
		server, subscribe = master.Options().Addr, master.SSubscribe
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.n.life.Err(); err != nil {
		return nil, err
	}
	ln := s.lines[server]
	if ln == nil {
		ln = &line{server: server}
		ln.ctx, ln.cancel = context.WithCancel(s.n.life)
		ln.pubsub = subscribe(ln.ctx)
		s.lines[server] = ln
	}
	ch.line = ln
	return ln, nil
}

// read takes what the server says until the line breaks, and then has its channels subscribed to
// anew and their waiters look.
func (s *subscriptions) read(ln *line) {
	err := s.receive(ln)
	if s.n.cluster != nil && s.n.life.Err() == nil {
		s.n.cluster.ReloadState(s.n.life) // a slot may have moved
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hangUp(ln)
	for _, ch := range s.channels {
		if ch.line != ln {
			continue
		}
		ch.line = nil
		for c := range ch.waiters {
			c.tell(Event{})
		}
		if s.failed(ch, fmt.Errorf("subscription: %w", explain(err))) {
			s.n.working.Go(func() { s.attach(ch, MinPause) })
		}
	}
}

// receive handles messages until there is an error. A server that was silent for long is asked
// whether it is there.
func (s *subscriptions) receive(ln *line) error {
	asked := false
	for {
		patience := silent
		if asked {
			patience = pong
		}
		msg, err := ln.pubsub.ReceiveTimeout(ln.ctx, patience)
		if timedOut(err) && !asked {
			asked, err = true, ln.pubsub.Ping(ln.ctx)
			if err == nil {
				continue
			}
		}
		if err != nil {
			return err
		}
		asked = false
		switch m := msg.(type) {
		case *goredis.Message:
			s.hear(m.Payload)
		case *goredis.Subscription:
			if strings.HasSuffix(m.Kind, "unsubscribe") { // the slot has moved
				return errors.New("the server has ended the subscription")
			}
			s.n.working.Go(func() { s.confirm(ln, m.Channel) })
		}
	}
}

// confirm makes sure that a subscription does what it is for before anybody relies on it.
func (s *subscriptions) confirm(ln *line, name string) {
	s.mu.Lock()
	ch := s.channels[name]
	s.mu.Unlock()
	if ch == nil {
		return
	}
	heard, _, err := s.n.run(s.n.life, s.n.scripts.check, ch.key, []any{1, ch.key, name})
	if err == nil && heard == int64(0) {
		err = errors.New("the server does not know of the subscription")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case ch.line != ln:
	case err == nil:
		ch.change(true, nil)
	case s.failed(ch, fmt.Errorf("test the subscription (PUBSUB, PUBLISH): %w", err)):
		s.n.working.Go(func() { s.attach(ch, MaxPause) })
	}
}

// hear takes a message: nothing, "look <id> [<milliseconds>]" or "granted <id> <token> <spare> <now>
// <key of the lock>".
func (s *subscriptions) hear(text string) {
	words := strings.SplitN(text, " ", 6)
	if len(words) < 2 {
		return
	}
	number := func(i int) int64 {
		if i >= len(words) {
			return 0
		}
		x, _ := strconv.ParseInt(words[i], 10, 64)
		return x
	}
	e := Event{Received: s.n.clock.Now()}
	switch {
	case words[0] == "look":
		e.In = time.Duration(number(2)) * time.Millisecond
	case words[0] == "granted" && len(words) == 6:
		e.Granted, e.Token, e.Spare, e.Now = true, number(2), number(3), number(4)
	default:
		return
	}
	s.mu.Lock()
	c := s.claims[words[1]]
	if c != nil && c.tell != nil {
		c.tell(e)
	}
	s.mu.Unlock()
	if c == nil && e.Granted {
		s.decline(words[1], words[5])
	}
}

// decline gives back a name that was granted to a claim that has ended: the queue still knew it, as
// one does that comes back after a failover.
func (s *subscriptions) decline(id, key string) {
	name, ok := s.n.keys.name(key)
	if !ok || s.n.life.Err() != nil {
		return
	}
	c := s.n.Claim(&driver.Claim{ID: id, Name: name})
	s.n.working.Go(func() {
		if _, _, err := s.n.end(s.n.life, c, 0, 0, ""); err != nil {
			s.n.opts.Logger.Debug("locker: giving back a name that nobody waits for", "name", name, "error", err)
		}
	})
}

package redisnode

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker/internal/servertime"
)

const (
	// silent is how long the server may say nothing before it is asked whether it is there, and pong how long
	// it may take to answer that.
	silent = 30 * time.Second
	pong   = 5 * time.Second
)

// errUnknown ends a subscription that is at another server than the names, see lua/acquire.lua.
var errUnknown = errors.New("the server does not know of the subscription")

// subscription is a connection on which a server tells a node news: on one channel, in a Cluster on one for each
// bucket in which something has waited. go-redis would repair it silently; here it ends when it breaks, and
// those who wait make another, so that nobody misses what happened in between.
type subscription struct {
	pubsub   *goredis.PubSub
	channels map[string]chan struct{} // closed when we listen to it and the user may PUBLISH
	ended    chan struct{}
	err      error // why it has ended
}

// Join has c told news by tell, which must not block, until Leave, while its subscription stands: see Ready. When that
// is interrupted c is told to ask.
func (n *Node) Join(c *Claim, tell func(Answer)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	c.tell = tell
	n.waited[c.ID] = c
}

// Leave ends what Join began. Until it is released or abandoned the claim is known as one that may hold its name.
func (n *Node) Leave(c *Claim) {
	n.mu.Lock()
	defer n.mu.Unlock()
	c.tell = nil
}

// forget ends a claim when d is over: should it be granted the name from then on that is given back. Until then late news of its
// grant is not.
func (n *Node) forget(c *Claim, d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if d > 0 && n.waited[c.ID] != nil {
		over, end := context.WithTimeout(n.life, d)
		context.AfterFunc(over, func() { end(); n.forget(c, 0) })
		return
	}
	delete(n.waited, c.ID)
}

// Listening reports whether the subscription of c stands: the server tells c news, should it wait, unless that was demoted, which Acquire finds out.
func (n *Node) Listening(c *Claim) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range n.subs {
		if s.tells(c) {
			return true
		}
	}
	return false
}

// tells reports whether c is told news by s. It wants Node.mu.
func (s *subscription) tells(c *Claim) bool {
	select {
	case <-s.channels[c.channel]: // never if there is none
		return true
	default:
		return false
	}
}

// Ready subscribes to the channel of c, which has joined, if that is not done yet. It returns when it is certain that
// the server will tell c news, with an error if it will not, or ctx has ended.
func (n *Node) Ready(ctx context.Context, c *Claim) error {
	server, client := "", n.client
	if n.cluster != nil {
		var master *goredis.Client
		err := n.aside(ctx, func() (err error) { // it may have to learn the servers of the Cluster
			master, err = n.cluster.MasterForKey(ctx, c.clock)
			return err
		})
		if err != nil {
			return err
		}
		server, client = master.Options().Addr, master
	}
	n.mu.Lock()
	s := n.subs[server]
	if s == nil {
		s = &subscription{pubsub: client.Subscribe(n.life), channels: map[string]chan struct{}{}, ended: make(chan struct{})}
		n.subs[server] = s
		n.working.Go(func() { n.read(server, s) })
	}
	certain := s.channels[c.channel]
	if certain == nil {
		certain = make(chan struct{})
		s.channels[c.channel] = certain
		subscribe := s.pubsub.Subscribe
		if n.cluster != nil {
			subscribe = s.pubsub.SSubscribe
		}
		n.working.Go(func() {
			if err := n.timed(func() error { return subscribe(n.life, c.channel) }); err != nil {
				n.end(s, err) // the reader may be on another connection by now
			}
		})
	}
	n.mu.Unlock()
	select {
	case <-certain:
		c.sub = s
		return nil
	case <-s.ended:
		return fmt.Errorf("subscribe: %w", explain(s.err))
	case <-ctx.Done():
		return ctx.Err()
	}
}

// end ends a subscription, for this reason unless there was another before.
func (n *Node) end(s *subscription, err error) {
	n.mu.Lock()
	if s.err == nil {
		s.err = err
	}
	n.mu.Unlock()
	_ = s.pubsub.Close()
}

// read takes what a server says until the connection breaks, and then has those who rely on it look.
func (n *Node) read(server string, s *subscription) {
	n.end(s, n.timed(func() error { return n.receive(s) }))
	if n.cluster != nil && n.life.Err() == nil {
		n.cluster.ReloadState(n.life) // a slot may have moved
		n.clients.Clear()             // a server may have left
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.subs, server)
	close(s.ended)
	for _, c := range n.waited {
		if c.tell != nil && s.tells(c) {
			c.tell(Answer{})
		}
	}
}

// receive handles messages until there is an error. A server that was silent for long is asked whether it is
// there.
func (n *Node) receive(s *subscription) error {
	patience := silent
	confirmed := make(map[string]bool)
	for {
		msg, err := s.pubsub.ReceiveTimeout(n.life, patience)
		if TimedOut(err) && patience == silent {
			patience, err = pong, s.pubsub.Ping(n.life)
		} else {
			patience = silent
		}
		switch m := msg.(type) {
		case *goredis.Message:
			n.hear(m.Payload)
		case *goredis.Subscription:
			if confirmed[m.Channel] {
				return errors.New("the subscription has moved") // with its slot, or to another connection
			}
			confirmed[m.Channel] = true
			n.working.Go(func() { n.test(s, m.Channel) })
		}
		if err != nil {
			return err
		}
	}
}

// test makes sure that the user may PUBLISH before anybody relies on a subscription, or ends it: a grant that cannot tell
// anybody does not say so.
func (n *Node) test(s *subscription, channel string) {
	publish := n.client.Publish
	if n.cluster != nil {
		publish = n.client.SPublish
	}
	if err := n.aside(n.life, func() error { return publish(n.life, channel, "").Err() }); err != nil {
		n.end(s, fmt.Errorf("test the subscription (PUBLISH): %w", err))
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	close(s.channels[channel])
}

// hear takes a message: nothing, "look <id>", "evicted <id>" or "granted <id> <token> <spare> <now> <key of the lock>".
func (n *Node) hear(text string) {
	words := append(strings.SplitN(text, " ", 6), make([]string, 5)...)
	token, spare, now := number(words[2]), number(words[3]), number(words[4])
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.waited[words[1]]
	if c == nil {
		if name, ok := n.keys.name(words[5]); ok {
			// The queue still knew a claim that has ended, as one does that comes back after a failover.
			n.working.Go(func() { _ = n.Evict(n.life, name, words[1]) })
		}
		return
	}
	a := Answer{Evicted: words[0] == "evicted"}
	began, ok := c.said.Sent, true // news may come before the first answer
	if c.said.Now != 0 {
		began, ok = servertime.Began(c.said.Sent, c.said.Now, now, n.clock.Now())
	}
	if words[0] == "granted" && ok {
		a = Answer{Sent: began, Now: now, Granted: true, Token: token, Spare: spare}
	}
	if c.tell != nil {
		c.tell(a)
	}
}

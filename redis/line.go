package redis

import (
	"context"
	"sync"
	"sync/atomic"

	goredis "github.com/redis/go-redis/v9"
)

// cluster is what is used of a client of a Cluster.
type cluster interface {
	MasterForKey(ctx context.Context, key string) (*goredis.Client, error)
	ReloadState(ctx context.Context)
}

// line is a connection on which the server tells us things, for one or more
// channels. go-redis would repair it silently; here it is replaced when it
// breaks, so that nothing of what happened in between goes unnoticed.
type line struct {
	node   string
	pubsub *goredis.PubSub
	ctx    context.Context
	cancel context.CancelFunc
	reader sync.Once
	dead   chan struct{} // closed when it has broken, after err was set
	err    error
	tap    atomic.Pointer[tap] // its connection, if that could be tapped

	// Guarded by listener.mu.
	users  int
	turn   turn
	leader *waiter       // who reads, if it is a waiter's turn
	led    bool          // a waiter has read lately
	wake   chan struct{} // its goroutine's rest is over

	mu     sync.Mutex
	reason error
}

// line returns the connection to the node that is in charge of the channel. The
// caller has to drop it.
func (l *listener) line(ch *channel) (*line, error) {
	subscribe, node := l.b.client.Subscribe, ""
	if l.b.layout.sharded {
		master, err := l.b.client.(cluster).MasterForKey(ch.ctx, ch.name)
		if err != nil {
			return nil, err
		}
		addSwitch(master, master.AddHook)
		subscribe, node = master.SSubscribe, master.Options().Addr
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	ln := l.lines[node]
	if ln == nil {
		ln = &line{node: node, dead: make(chan struct{}), wake: make(chan struct{}, 1)}
		ln.ctx, ln.cancel = context.WithCancel(l.b.life)
		ln.pubsub = subscribe(ln.ctx)
		l.lines[node] = ln
	}
	ln.users++
	ch.line = ln
	return ln, nil
}

// subscribe asks for the channel; the answer comes as a notice.
func (l *listener) subscribe(ln *line, ch *channel) error {
	subscribe := ln.pubsub.Subscribe
	if l.b.layout.sharded {
		subscribe = ln.pubsub.SSubscribe
	}
	if err := subscribe(ln.tapped(ch.ctx), ch.name); err != nil {
		return err
	}
	ln.reader.Do(func() {
		l.b.working.Go(func() { l.read(ln) })
	})
	return nil
}

func (l *listener) broken(ln *line, err error) {
	ln.kill(err)
	if c, ok := l.b.client.(cluster); ok {
		c.ReloadState(l.b.life) // the slot may have moved
	}
	l.mu.Lock()
	if l.lines[ln.node] == ln {
		delete(l.lines, ln.node)
	}
	l.mu.Unlock()
	ln.mu.Lock()
	ln.err = ln.reason
	ln.mu.Unlock()
	close(ln.dead)
}

// kill closes the connection. The first reason counts.
func (ln *line) kill(why error) {
	ln.mu.Lock()
	if ln.reason == nil {
		ln.reason = why
	}
	ln.mu.Unlock()
	ln.cancel()
	_ = ln.pubsub.Close()
}

// drop ends the use of a line for one channel.
func (l *listener) drop(ln *line, ch *channel) {
	l.mu.Lock()
	ch.line = nil
	ln.users--
	last := ln.users == 0
	if last && l.lines[ln.node] == ln {
		delete(l.lines, ln.node)
	}
	l.mu.Unlock()
	if last {
		ln.kill(context.Canceled)
		return
	}
	select {
	case <-ln.dead:
	default:
		_ = ln.pubsub.SUnsubscribe(ln.ctx, ch.name)
	}
}

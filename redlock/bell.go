package redlock

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

const (
	// quiet is how long a subscription may be silent before it is asked whether
	// it is still alive, and patience how long that may take.
	quiet    = 30 * time.Second
	patience = 5 * time.Second
	// grace is how much longer than for a majority the other nodes are waited for.
	grace = 20 * time.Millisecond
)

// bell listens to what concerns this process's waiters: one subscription at each
// node, begun when somebody has to wait for the first time.
type bell struct {
	b       *backend
	channel string
	ctx     context.Context // ends with close
	stop    context.CancelFunc
	start   sync.Once
	ringers sync.WaitGroup

	mu      sync.Mutex
	subs    []*goredis.PubSub
	heard   nodeSet       // nodes at which we are subscribed
	changed chan struct{} // closed and replaced when heard changes
	closed  bool
}

func newBell(b *backend) *bell {
	l := &bell{b: b, channel: b.prefix + ":wake:" + b.channel, changed: make(chan struct{})}
	l.ctx, l.stop = context.WithCancel(b.ctx)
	return l
}

// listening: there is a node at which somebody can hand us a lock.
func (l *bell) listening() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.heard != 0
}

// listen subscribes and waits until all nodes have confirmed it, but not for long when a
// majority has. It returns whether there is one at least.
func (l *bell) listen(ctx context.Context) bool {
	l.start.Do(l.subscribe)
	bound := time.NewTimer(l.b.bound)
	defer bound.Stop()
	for majority := false; ; {
		l.mu.Lock()
		heard, changed := l.heard, l.changed
		l.mu.Unlock()
		if heard == allNodes(len(l.b.nodes)) {
			return true
		}
		if !majority && heard.len() >= l.b.quorum {
			// Who is not listened to yet would drop us from its queue.
			majority = true
			bound.Reset(grace)
		}
		select {
		case <-changed:
			continue
		case <-bound.C:
		case <-ctx.Done():
		}
		return heard != 0
	}
}

func (l *bell) subscribe() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	for i, n := range l.b.nodes {
		// Without channels it does not connect yet.
		sub := n.client.Subscribe(l.ctx)
		l.subs = append(l.subs, sub)
		l.ringers.Add(1)
		go l.attend(i, sub)
	}
}

// attend reads what node i sends until the bell is closed. PubSub connects again
// by itself, without a word: that shows in the confirmation of the subscription.
func (l *bell) attend(i int, sub *goredis.PubSub) {
	defer l.ringers.Done()
	pause := 10 * time.Millisecond
	if err := sub.Subscribe(l.ctx, l.channel); err != nil {
		l.rest(i, &pause)
	}
	for !l.isClosed() {
		msg, err := sub.ReceiveTimeout(l.ctx, quiet)
		var silence net.Error
		if err != nil && errors.As(err, &silence) && silence.Timeout() {
			if err = sub.Ping(l.ctx); err == nil {
				msg, err = sub.ReceiveTimeout(l.ctx, patience)
			}
		}
		if err != nil {
			l.rest(i, &pause)
			continue
		}
		pause = 10 * time.Millisecond
		switch m := msg.(type) {
		case *goredis.Subscription:
			if m.Kind == "subscribe" {
				l.confirmed(i)
			}
		case *goredis.Message:
			l.rung(i, m.Payload)
		}
	}
}

// rest notes that node i does not reach us and waits a while.
func (l *bell) rest(i int, pause *time.Duration) {
	l.mu.Lock()
	l.heard = l.heard.without(i)
	l.mu.Unlock()
	select {
	case <-time.After(*pause):
	case <-l.ctx.Done():
	}
	*pause = min(2**pause, time.Second)
}

// confirmed: node i reaches us, from now on. What it had to say before is lost, so
// everybody who waits has a look at it.
func (l *bell) confirmed(i int) {
	l.mu.Lock()
	l.heard = l.heard.with(i)
	close(l.changed)
	l.changed = make(chan struct{})
	l.mu.Unlock()

	b := l.b
	b.mu.Lock()
	waiting := make([]*claim, 0, len(b.claims))
	for _, c := range b.claims {
		waiting = append(waiting, c)
	}
	b.mu.Unlock()
	for _, c := range waiting {
		c.wake(func() { c.stirred = c.stirred.with(i) })
	}
}

func (l *bell) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

func (l *bell) close() {
	l.mu.Lock()
	l.closed = true
	subs := l.subs
	l.mu.Unlock()
	l.stop()
	for _, sub := range subs {
		// It may be connecting, which takes as long as it takes.
		l.ringers.Go(func() { _ = sub.Close() })
	}
}

func (l *bell) wait() { l.ringers.Wait() }

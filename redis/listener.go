package redis

import (
	"context"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

const never = driver.Instant(math.MaxInt64)

// listener keeps the subscriptions by which the waiters of one Locker are told
// that a name is theirs. On a single server there is one channel, in a Cluster one
// for each bucket in which somebody waits.
type listener struct {
	b       *backend
	resting time.Duration

	mu       sync.Mutex
	channels map[string]*channel
	lines    map[string]*line   // by node
	claims   map[string]*waiter // those that have waited, until their claim ends
}

// waiter is a claim that is in a queue.
type waiter struct {
	claim   string
	channel *channel
	granted chan handover // at most one
	look    chan struct{} // at most one: there may be news that nobody was told

	// Guarded by listener.mu.
	waiting bool
	told    bool           // since it was about to wait last
	due     driver.Instant // when to look in any case
}

// handover is the message that makes a waiter the holder.
type handover struct {
	token    int64
	at       int64 // by the server's clock
	received driver.Instant
	aside    bool // it came with the answer to a release, not by the channel
}

func newListener(b *backend) *listener {
	return &listener{
		b:        b,
		resting:  resting,
		channels: make(map[string]*channel),
		lines:    make(map[string]*line),
		claims:   make(map[string]*waiter),
	}
}

// listens reports whether the channel is subscribed to already.
func (l *listener) listens(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	ch := l.channels[name]
	return ch != nil && ch.up
}

// awaits reports whether somebody waits on the channel and would be told.
func (l *listener) awaits(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	ch := l.channels[name]
	return ch != nil && ch.up && len(ch.waiters) > 0
}

// join makes the claim a waiter on a channel and has the channel subscribed to.
func (l *listener) join(claim, name, key string) *waiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	ch := l.channels[name]
	if ch == nil {
		ch = &channel{name: name, key: key, events: make(chan event, 8), waiters: make(map[*waiter]struct{}), rings: never}
		ch.ctx, ch.stop = context.WithCancel(l.b.life)
		l.channels[name] = ch
		l.b.working.Go(func() { l.keep(ch) })
	}
	w := &waiter{
		claim: claim, channel: ch, waiting: true, due: never,
		granted: make(chan handover, 1), look: make(chan struct{}, 1),
	}
	ch.waiters[w] = struct{}{}
	l.claims[claim] = w
	return w
}

// leave ends the waiting. The claim stays known until forget.
func (l *listener) leave(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.waiting = false
	ch := w.channel
	delete(ch.waiters, w)
	switch {
	case len(ch.waiters) > 0 || ch.ended:
	case ch.up:
		ch.idle = l.b.clock.Now()
		l.ring(ch, ch.idle.Add(linger))
	default:
		l.end(ch, nil)
	}
}

// forget ends the claim: a message for it is a mistake from now on.
func (l *listener) forget(claim string) {
	l.mu.Lock()
	delete(l.claims, claim)
	l.mu.Unlock()
}

// remind has w look when d is over, if nothing happens before.
func (l *listener) remind(w *waiter, d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.due = l.b.clock.Now().Add(d)
	l.ring(w.channel, w.due)
}

// ring sets the channel's alarm. It is one for all waiters, and left alone when a
// waiter goes, so that those who do not wait for long need no timer.
func (l *listener) ring(ch *channel, at driver.Instant) {
	if ch.ended || at >= ch.rings {
		return
	}
	ch.rings = at
	d := max(at.Sub(l.b.clock.Now()), 0)
	if ch.alarm == nil {
		ch.alarm = time.AfterFunc(d, func() { l.rang(ch) })
	} else {
		ch.alarm.Reset(d)
	}
}

// rang has those look who are due, and ends a channel that nobody needs.
func (l *listener) rang(ch *channel) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, next := l.b.clock.Now(), never
	ch.rings = never
	if len(ch.waiters) == 0 {
		if next = ch.idle.Add(linger); next <= now {
			l.end(ch, nil)
			return
		}
	}
	for w := range ch.waiters {
		if w.due <= now {
			w.due = never
			w.rouse()
		}
		next = min(next, w.due)
	}
	l.ring(ch, next)
}

func (w *waiter) rouse() {
	select {
	case w.look <- struct{}{}:
	default:
	}
}

// close ends all subscriptions. The goroutines end soon after.
func (l *listener) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, ch := range l.channels {
		l.end(ch, context.Canceled)
	}
	for _, ln := range l.lines {
		ln.cancel()
	}
}

// hear takes a message: nothing, which only shows that the channel works, or news.
func (l *listener) hear(name, text string) {
	now := l.b.clock.Now()
	l.mu.Lock()
	if ch := l.channels[name]; ch != nil {
		ch.heard.Store(int64(now))
	}
	l.mu.Unlock()
	l.tell(text, handover{received: now})
}

// tell lets a claim know that it holds its name. The news, of which h says how it came, is
// "<claim>+ <token> <time> <key of the lock>".
func (l *listener) tell(news string, h handover) {
	claim, news, _ := strings.Cut(news, "+ ")
	token, news, _ := strings.Cut(news, " ")
	at, key, ok := strings.Cut(news, " ")
	if !ok {
		return
	}
	h.token, _ = strconv.ParseInt(token, 10, 64)
	h.at, _ = strconv.ParseInt(at, 10, 64)
	l.mu.Lock()
	w := l.claims[claim]
	if w != nil && w.waiting {
		select {
		case w.granted <- h:
		default:
		}
		w.told = true
	}
	l.mu.Unlock()
	if w == nil {
		l.b.decline(claim, key)
	}
}

// rouse has all who wait on a channel look.
func (l *listener) rouse(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ch := l.channels[name]; ch != nil {
		ch.rouse()
	}
}

package redis

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

const (
	// linger is how long a subscription outlives its last waiter.
	linger = 5 * time.Second
	// confirmation is how long a subscription may take.
	confirmation = 5 * time.Second
	// echo is how soon a word said on a channel must come back.
	echo = 2 * time.Second
)

const never = driver.Instant(math.MaxInt64)

var errDeaf = errors.New("the subscription is dead")

// listener keeps the subscriptions by which the waiters of one Locker are told
// that a name is theirs. On a single server there is one channel, in a Cluster one
// for each bucket in which somebody waits.
type listener struct {
	b *backend

	mu       sync.Mutex
	channels map[string]*channel
	lines    map[string]*line   // by node
	claims   map[string]*waiter // those that have waited, until their claim ends
}

// channel is one subscription, which a goroutine keeps up from its first waiter
// until some time after its last.
type channel struct {
	name, key string // key is one of the bucket's, to find the node
	ctx       context.Context
	stop      context.CancelFunc
	events    chan event
	heard     atomic.Int64 // when there was a message last

	// Guarded by listener.mu.
	waiters map[*waiter]struct{}
	up      bool  // the server has confirmed that it will tell us
	err     error // why not
	ended   bool
	idle    driver.Instant // since when nobody waits, if nobody does
	alarm   *time.Timer    // for the first of all waiters that is due to look
	rings   driver.Instant // when
}

// event is something that happened to a channel on a line.
type event struct {
	line *line
	kind string // as go-redis calls it, or "reset"
}

// waiter is a claim that is in a queue.
type waiter struct {
	claim   string
	channel *channel
	granted chan handover // at most one
	look    chan struct{} // at most one: there may be news that nobody was told

	// Guarded by listener.mu.
	waiting bool
	due     driver.Instant // when to look in any case
}

// handover is the message that makes a waiter the holder.
type handover struct {
	token    int64
	at       int64 // by the server's clock
	received driver.Instant
}

func newListener(b *backend) *listener {
	return &listener{
		b:        b,
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

// join makes the claim a waiter on a channel and has the channel subscribed to.
func (l *listener) join(claim, name, key string) *waiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	ch := l.channels[name]
	if ch == nil {
		ch = &channel{name: name, key: key, events: make(chan event, 8), waiters: make(map[*waiter]struct{}), rings: never}
		ch.ctx, ch.stop = context.WithCancel(l.b.life)
		l.channels[name] = ch
		l.b.working.run(func() { l.keep(ch) })
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

// end gives the channel up. Those who come later begin anew.
func (l *listener) end(ch *channel, why error) {
	if !ch.ended {
		ch.ended, ch.up, ch.err = true, false, why
		delete(l.channels, ch.name)
		if ch.alarm != nil {
			ch.alarm.Stop()
		}
		ch.stop()
		ch.rouse()
	}
}

func (ch *channel) rouse() {
	for w := range ch.waiters {
		w.rouse()
	}
}

func (w *waiter) rouse() {
	select {
	case w.look <- struct{}{}:
	default:
	}
}

// ready waits until the server will tell w. It returns an error if that cannot be or
// ctx has ended, and what is in the way.
func (l *listener) ready(ctx context.Context, w *waiter) (why, err error) {
	ch := w.channel
	for {
		select {
		case <-w.look:
		default:
		}
		l.mu.Lock()
		up, ended, err := ch.up, ch.ended, ch.err
		l.mu.Unlock()
		switch {
		case up:
			return nil, nil
		case ended:
			return err, err
		}
		select {
		case <-w.look:
		case <-ctx.Done():
			return err, ctx.Err()
		}
	}
}

// silent reports whether nothing has been heard for so long that a look should
// test the subscription, too.
func (l *listener) silent(w *waiter) bool {
	return l.b.clock.Now().Sub(driver.Instant(w.channel.heard.Load())) > quiet
}

// probed draws the conclusion from a look that said a word on the channel.
func (l *listener) probed(w *waiter, a answer) {
	ch := w.channel
	if !a.heard {
		l.reset(ch)
		return
	}
	time.AfterFunc(echo, func() {
		if driver.Instant(ch.heard.Load()) < a.sent {
			l.reset(ch)
		}
	})
}

func (l *listener) reset(ch *channel) {
	select {
	case ch.events <- event{kind: "reset"}:
	default:
	}
}

// close ends all subscriptions. The goroutines end soon after.
func (l *listener) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, ch := range l.channels {
		l.end(ch, nil)
	}
	for _, ln := range l.lines {
		ln.cancel()
	}
}

// keep subscribes to a channel again and again until it is given up.
func (l *listener) keep(ch *channel) {
	for pause := minPause; ; {
		err := l.listen(ch)
		l.mu.Lock()
		if ch.up {
			pause = minPause
		}
		ch.up, ch.err = false, err
		if ch.ctx.Err() == nil && !mends(err) {
			l.end(ch, err)
		}
		ended := ch.ended
		l.mu.Unlock()
		if ended {
			return
		}
		timer := time.NewTimer(pause.next())
		select {
		case <-timer.C:
		case <-ch.ctx.Done():
			timer.Stop()
		}
	}
}

// listen subscribes once and returns when the subscription has ended.
func (l *listener) listen(ch *channel) error {
	ln, err := l.line(ch)
	if err != nil {
		return fmt.Errorf("find the node to subscribe at: %w", err)
	}
	defer l.drop(ln, ch)
	for len(ch.events) > 0 {
		<-ch.events // of the subscription before
	}
	if err := l.subscribe(ln, ch); err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	late := time.NewTimer(confirmation)
	defer late.Stop()
	for {
		select {
		case e := <-ch.events:
			switch {
			case e.kind == "reset":
				ln.kill(errDeaf)
				return errDeaf
			case e.line != ln:
			case strings.HasSuffix(e.kind, "unsubscribe"):
				return errors.New("the server has ended the subscription") // the slot has moved
			default:
				late.Stop()
				if err := l.hello(ch); err != nil {
					return err
				}
			}
		case <-ln.dead:
			return fmt.Errorf("subscription: %w", ln.err)
		case <-late.C:
			return errors.New("subscribe: no answer")
		case <-ch.ctx.Done():
			return ch.ctx.Err()
		}
	}
}

// hello makes sure that the subscription does what it is for, and has every
// waiter look: nobody knows what was said before.
func (l *listener) hello(ch *channel) error {
	heard, err := l.b.scripts.hello.run(ch.ctx, l.b.client, args{nil, nil, one, ch.key, ch.name})
	if err != nil {
		return fmt.Errorf("test the subscription (PUBSUB NUMSUB, PUBLISH): %w", err)
	}
	if heard == int64(0) {
		return errDeaf
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !ch.ended {
		ch.up, ch.err = true, nil
		ch.rouse()
	}
	return nil
}

// hear takes a message: nothing, which only shows that the channel works, or
// "<claim> <token> <time> <key of the lock>".
func (l *listener) hear(name, text string) {
	now := l.b.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if ch := l.channels[name]; ch != nil {
		ch.heard.Store(int64(now))
	}
	part := strings.SplitN(text, " ", 4)
	if len(part) != 4 {
		return
	}
	h := handover{received: now}
	h.token, _ = strconv.ParseInt(part[1], 10, 64)
	h.at, _ = strconv.ParseInt(part[2], 10, 64)
	w := l.claims[part[0]]
	switch {
	case w == nil:
		l.b.decline(part[0], part[3])
	case w.waiting:
		select {
		case w.granted <- h:
		default:
		}
	}
}

// notice takes a confirmation of the server.
func (l *listener) notice(ln *line, name, kind string) {
	l.mu.Lock()
	ch := l.channels[name]
	l.mu.Unlock()
	if ch != nil {
		select {
		case ch.events <- event{ln, kind}:
		default:
		}
	}
}

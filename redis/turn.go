package redis

import (
	"context"
	"net"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// A goroutine of the line reads what the server tells, and wakes the waiter whose news
// that is. Where a name goes from hand to hand that costs as much as all else that its
// holder does: to change goroutines, and to wake another processor for it. So whoever
// waits alone in its Locker, soon after it, or another, was told there, reads the line
// itself, for a moment. The goroutine has nothing to read then and rests.
const (
	// leading is for how long at most a waiter reads the line. For as long it does not
	// notice that its context has ended.
	leading = 10 * time.Millisecond
	// resting is for how long nobody has to have read the line for its goroutine to do so
	// again, though nobody waits.
	resting = 50 * time.Millisecond
)

// turn says who reads a line.
type turn int

const (
	ofReader turn = iota // its goroutine, or it is about to
	ofWaiter
	ofNobody
)

// lineKey is what a context has a line under whose connection is made.
type lineKey struct{}

// read takes what the server says until the line is dead.
func (l *listener) read(ln *line) {
	for {
		if err := l.receive(ln); err != nil {
			l.broken(ln, err)
			return
		}
		if l.rests(ln) && !l.rest(ln) {
			return
		}
	}
}

// receive takes one message.
func (l *listener) receive(ln *line) error {
	msg, err := ln.pubsub.Receive(ln.ctx)
	if err != nil {
		return err
	}
	switch m := msg.(type) {
	case *goredis.Message:
		l.hear(m.Channel, m.Payload)
	case *goredis.Subscription:
		l.notice(ln, m.Channel, m.Kind)
	}
	return nil
}

// rests ends the turn of the line's goroutine if nobody waits who has not been told.
func (l *listener) rests(ln *line) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ln.tap.Load() == nil || len(l.claims) > 1 {
		return false
	}
	for _, w := range l.claims {
		if !w.told {
			return false
		}
	}
	ln.turn, ln.led = ofNobody, false
	return true
}

// rest returns when it is the turn of the line's goroutine again, or with false when the
// line is dead.
func (l *listener) rest(ln *line) bool {
	timer := time.NewTimer(l.resting)
	defer timer.Stop()
	over := ln.ctx.Done()
	for {
		select {
		case <-ln.wake:
			return true
		case <-ln.dead:
			return false
		case <-over:
			over = nil // a waiter who reads now will see to it
		case <-timer.C:
			timer.Reset(l.resting)
		}
		l.mu.Lock()
		if ln.turn == ofNobody && (over == nil || !ln.led) {
			l.wake(ln)
		}
		ln.led = false
		l.mu.Unlock()
	}
}

// wake gives the turn to the line's goroutine, which rests.
func (l *listener) wake(ln *line) {
	ln.turn = ofReader
	ln.wake <- struct{}{} // has room: there is one for each rest
}

// attend sees to it that somebody reads the line of w, who is about to wait: w itself if
// it may.
func (l *listener) attend(w *waiter, may bool) {
	l.mu.Lock()
	w.told = false
	ln := w.channel.line
	if ln == nil || ln.turn != ofNobody {
		l.mu.Unlock()
		return
	}
	if may = may && len(l.claims) == 1 && len(w.granted) == 0; may {
		may = ln.tap.Load().SetReadDeadline(time.Now().Add(leading)) == nil
	}
	if !may {
		l.wake(ln)
		l.mu.Unlock()
		return
	}
	ln.turn, ln.led, ln.leader = ofWaiter, true, w
	l.mu.Unlock()

	all := true
	for all && len(w.granted) == 0 && len(w.look) == 0 {
		var channel, text string
		if channel, text, all = ln.tap.Load().overhear(); all {
			l.hear(channel, text)
		}
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	ln.leader = nil
	if all && len(l.claims) == 1 && ln.ctx.Err() == nil {
		ln.turn = ofNobody
	} else {
		l.wake(ln)
	}
}

// toldAside stops a waiter that reads a line and was told its news otherwise.
func (l *listener) toldAside() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, ln := range l.lines {
		if ln.leader != nil && ln.leader.told {
			_ = ln.tap.Load().SetReadDeadline(time.Unix(1, 0))
		}
	}
}

// tapped are the contexts by which the connection of the line is made.
func (ln *line) tapped(ctx context.Context) context.Context {
	return context.WithValue(ctx, lineKey{}, ln)
}

// tapOn has the line's connection tapped, if it is the first.
func (ln *line) tapOn(conn net.Conn) net.Conn {
	if t := (&tap{Conn: conn}); ln.tap.CompareAndSwap(nil, t) {
		return t
	}
	return conn
}

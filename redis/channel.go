package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

var errDeaf = errors.New("the subscription is dead")

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
	line    *line // where it is subscribed to, or is about to be
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

package sqlqueue

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// PollEvery is how often the waiters ask as long as they cannot be told, and pollFor how long, until another try to
// listen, where they cannot be.
const (
	PollEvery = 250 * time.Millisecond
	pollFor   = time.Minute
)

// ErrCannotListen says that waiters cannot be told news, and have to ask.
var ErrCannotListen = errors.New("waiters cannot be told news")

// Event is news for a claim that waits. The zero value tells it to look, which is to ask for the name again: the
// connection was interrupted, its row was removed, a holding may end sooner than it was told.
type Event struct {
	Granted      bool // the server made the claim the holder at Now by its clock, in microseconds
	Token, Spare int64
	Now          int64
	Received     driver.Instant
}

// Listener tells the waiting claims of one Locker news: from the connection on which the Server listens or, as long as
// there is none, by asking. Claims that ask before the connection is there have no listener; when it is there they
// are told to look, and ask again with its number.
type Listener struct {
	q         *Queue
	pollEvery time.Duration // zero: listen

	mu      sync.Mutex
	claims  map[string]*Claim // those that wait
	running bool
	polling bool
	number  int64 // by which the server tells, 0 if it cannot now
	refused error // why it never will
}

// join has c told news by tell, which must not block, until leave.
func (l *Listener) join(c *Claim, tell func(Event)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.tell = tell
	l.claims[c.ID] = c
}

func (l *Listener) leave(c *Claim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.claims, c.ID)
}

// asks notes that c asks the server, and returns the number by which it can be told news, 0 if it cannot be now, and
// an error if it never can be.
func (l *Listener) asks(c *Claim) (number int64, refused error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.told = false
	return l.number, l.refused
}

// waits notes that the server has said that c waits, and begins to listen, unless that has begun. A claim that was
// not known as one to be told asks again if it can be now.
func (l *Listener) waits(c *Claim, asked int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.queued = true
	if asked != l.number {
		l.tell(c, Event{})
	}
	if !l.running {
		l.running = true
		l.startPolling()
		if l.pollEvery == 0 {
			l.q.working.Go(l.run)
		}
	}
}

// tell tells a claim news. The caller has l.mu.
func (l *Listener) tell(c *Claim, e Event) {
	c.told = true
	c.tell(e)
}

// Tell tells news that came just now to the claim with that ID, if it waits.
func (l *Listener) Tell(id string, e Event) {
	e.Received = l.q.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.claims[id]; c != nil {
		l.tell(c, e)
	}
}

// Listens notes that the server tells news by number from now on, or that it does not if that is 0, and has all that wait look.
func (l *Listener) Listens(number int64) { l.change(number, nil) }

func (l *Listener) change(number int64, refused error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.number, l.refused = number, refused
	l.startPolling()
	for _, c := range l.claims {
		l.tell(c, Event{})
	}
}

// Waiting returns the IDs of the claims that wait and do not know yet that there is news, and of each whether the server has
// said that it waits.
func (l *Listener) Waiting() map[string]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make(map[string]bool)
	for id, c := range l.claims {
		if !c.told {
			all[id] = c.queued
		}
	}
	return all
}

// run listens until the Locker is closed, on one connection after the other.
func (l *Listener) run() {
	life := l.q.life
	for pause := new(driver.Backoff); life.Err() == nil; pause.Sleep(life) {
		began := time.Now()
		err := l.q.server.Listen(life, l)
		switch {
		case errors.Is(err, ErrCannotListen):
			l.change(0, nil)
			sleep(life, pollFor)
		case l.q.server.Transient(err):
			l.change(0, nil)
		default:
			l.change(0, err)
		}
		if time.Since(began) > time.Second {
			*pause = driver.Backoff{}
		}
	}
}

// startPolling begins to poll unless the server tells news or that has begun. The caller has l.mu.
func (l *Listener) startPolling() {
	if l.number == 0 && !l.polling {
		l.polling = true
		l.q.working.Go(l.poll)
	}
}

// poll asks every so often what is new, until the server tells it or the Locker is closed.
func (l *Listener) poll() {
	life, every := l.q.life, cmp.Or(l.pollEvery, PollEvery)
	for sleep(life, every); l.goOnPolling(); {
		next := time.Now().Add(every)
		if len(l.Waiting()) > 0 {
			l.q.server.Poll(life, l)
		}
		sleep(life, time.Until(next))
	}
}

// goOnPolling reports whether poll is to go on; if not, another may begin.
func (l *Listener) goOnPolling() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.polling = l.number == 0 && l.q.life.Err() == nil
	return l.polling
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

package memory

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Link is the way from one Locker to the store. It works until it is told not to.
type Link struct {
	store *Store
	own   fault // guarded by store.mu
}

// Cut makes every request over the link fail at once with err. Waiters keep their
// place and go on after Heal.
func (l *Link) Cut(err error) { l.store.set(&l.own, failing, err) }

// Freeze makes every request over the link hang: nothing arrives, nothing fails.
func (l *Link) Freeze() { l.store.set(&l.own, frozen, errNoAnswer) }

// Mute lets requests through and holds back the replies: what was asked for is
// done, but whoever asked does not learn of it.
func (l *Link) Mute() { l.store.set(&l.own, muted, errNoAnswer) }

// Heal ends what Cut, Freeze or Mute began.
func (l *Link) Heal() { l.store.set(&l.own, none, nil) }

// Fail makes the store unavailable to everybody: every request fails at once
// with err, until Heal. The time of holdings goes on.
func (s *Store) Fail(err error) { s.set(&s.outage, failing, err) }

// Heal makes the store available again. What is wrong with a Link stays wrong.
func (s *Store) Heal() { s.set(&s.outage, none, nil) }

// fault is what is wrong with a link or with the store.
type fault struct {
	kind kind
	err  error
	over chan struct{} // closed at the next change
}

type kind int

const (
	none    kind = iota
	failing      // requests fail at once
	frozen       // requests do not arrive
	muted        // replies do not arrive
)

var (
	errUnavailable = errors.New("the store is away")
	errNoAnswer    = errors.New("no answer from the store")
)

func (s *Store) set(f *fault, kind kind, err error) {
	s.lock()
	defer s.unlock()
	if f.over != nil {
		close(f.over)
	}
	if err == nil {
		err = errUnavailable
	}
	*f = fault{kind: kind, err: fmt.Errorf("memory: %w", err), over: make(chan struct{})}
	s.settleAll()
}

// fault returns what is wrong now, with the store or with the link.
func (l *Link) fault() *fault {
	if l.store.outage.kind != none {
		return &l.store.outage
	}
	return &l.own
}

// reachable reports whether the store can send a grant. It cannot know that the
// replies over a muted link are lost.
func (l *Link) reachable() bool {
	k := l.fault().kind
	return k == none || k == muted
}

// request runs do at the store, with its lock held, as soon as the link lets it
// through, and returns what do returned when the reply has come through as well; without
// do it only waits for a reply. With patience it waits for as long as ctx allows.
func (l *Link) request(ctx context.Context, patience bool, do func() error) (err error) {
	for {
		l.store.lock()
		f := *l.fault()
		if do != nil && l.reachable() {
			l.store.requests++
			err = do()
			do = nil
		}
		l.store.unlock()
		if f.kind == none {
			return err
		}
		if err := f.wait(ctx, patience); err != nil {
			return err
		}
	}
}

// answerBound is how long a request without patience waits for its answer.
const answerBound = time.Second

// wait returns nil when something has changed, or the fault when waiting any longer is
// not worth it.
func (f fault) wait(ctx context.Context, patience bool) error {
	if !patience {
		if f.kind == failing {
			return f.err
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, answerBound)
		defer cancel()
	}
	select {
	case <-f.over:
		return nil
	case <-ctx.Done():
		return f.err
	}
}

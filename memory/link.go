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
	fault fault // guarded by store.mu
}

// fault is what is wrong with a link or with the store, and how to hear that it
// is over.
type fault struct {
	kind kind
	err  error
	over chan struct{}
}

type kind int

const (
	none kind = iota
	failing
	frozen
	muted
)

// Cut makes every request over the link fail at once with err. Waiters keep their
// place and go on after Heal.
func (l *Link) Cut(err error) { l.store.fail(&l.fault, failing, err) }

// Freeze makes every request over the link hang: nothing arrives, nothing fails.
func (l *Link) Freeze() { l.store.fail(&l.fault, frozen, nil) }

// Mute lets requests through and holds back the replies: what was asked for is
// done, but whoever asked does not learn of it.
func (l *Link) Mute() { l.store.fail(&l.fault, muted, nil) }

// Heal ends what Cut, Freeze or Mute began.
func (l *Link) Heal() { l.store.heal(&l.fault) }

// Fail makes the store unavailable to everybody: every request fails at once
// with err, until Heal. Leases go on running.
func (s *Store) Fail(err error) { s.fail(&s.outage, failing, err) }

// Heal makes the store available again. What is wrong with a Link stays wrong.
func (s *Store) Heal() { s.heal(&s.outage) }

func (s *Store) fail(f *fault, kind kind, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.over != nil {
		close(f.over) // whoever waits looks again
	}
	if err == nil {
		err = errUnavailable
	}
	*f = fault{kind: kind, err: err, over: make(chan struct{})}
}

func (s *Store) heal(f *fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.over != nil {
		close(f.over)
	}
	*f = fault{}
	s.settleAll()
}

// reachable: a grant would arrive. A muted link counts as reachable, because the
// store cannot know that its replies are lost.
func (l *Link) reachable() bool {
	return l.store.outage.kind == none && (l.fault.kind == none || l.fault.kind == muted)
}

// request runs do at the store, with its lock held, once the link lets it
// through. With patience it waits until a link that fails is mended. It returns
// without error only if the reply came through as well.
func (l *Link) request(ctx context.Context, patience bool, do func()) error {
	s := l.store
	for {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.mu.Lock()
		f := &s.outage
		if f.kind == none {
			f = &l.fault
		}
		switch {
		case f.kind == none:
			s.requests++
			do()
			s.mu.Unlock()
			return nil
		case f.kind == muted:
			s.requests++
			do()
			s.mu.Unlock()
			return l.reply(ctx, patience)
		case f.kind == failing && !patience:
			err := f.err
			s.mu.Unlock()
			return fmt.Errorf("memory: request: %w", err)
		}
		over := f.over
		s.mu.Unlock()
		if err := await(ctx, over, patience); err != nil {
			return err
		}
	}
}

// answerBound is how long a request waits for its answer, unless it has patience.
const answerBound = time.Second

var errNoAnswer = errors.New("memory: no answer from the store")

func await(ctx context.Context, over <-chan struct{}, patience bool) error {
	var enough <-chan time.Time
	if !patience {
		t := time.NewTimer(answerBound)
		defer t.Stop()
		enough = t.C
	}
	select {
	case <-over:
		return nil
	case <-enough:
		return errNoAnswer
	case <-ctx.Done():
		return ctx.Err()
	}
}

// reply waits until replies get through.
func (l *Link) reply(ctx context.Context, patience bool) error {
	s := l.store
	for {
		s.mu.Lock()
		f := l.fault
		s.mu.Unlock()
		switch f.kind {
		case none:
			return nil
		case failing:
			return fmt.Errorf("memory: reply: %w", f.err)
		}
		if err := await(ctx, f.over, patience); err != nil {
			return err
		}
	}
}

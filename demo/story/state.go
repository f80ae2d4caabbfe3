package story

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/seed80cd6120/locker"
)

// State is what the page shows at one moment.
type State struct {
	Clients []ClientState
	Holder  string   // as the server knows it
	Waiting []string // in order
	Value   string   // the last that the store has accepted
	Log     []Line
}

// ClientState is what one client knows of itself.
type ClientState struct {
	Name, Text   string
	Holds, Waits bool
	Paused       bool
	OnTheWay     int // writes that have not arrived at the store
}

// Line is one event.
type Line struct {
	Seconds float64 // since the story began
	Text    string
}

// say notes an event. Story.mu is held.
func (s *Story) say(who, format string, args ...any) {
	s.log = append(s.log, Line{time.Since(s.start).Seconds(), who + ": " + fmt.Sprintf(format, args...)})
}

// State returns what is the case now.
func (s *Story) State() (State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	positions, err := locker.Inspect(context.Background(), s.reader, name)
	if err != nil {
		return State{}, err
	}
	state := State{Holder: "nobody", Value: "nothing", Log: slices.Clone(s.log)}
	for _, p := range positions {
		if p.Held {
			state.Holder = fmt.Sprintf("%s, token %d, %s left", p.Owner, s.tokens+p.Token, seconds(p.Left))
		} else {
			state.Waiting = append(state.Waiting, p.Owner)
		}
	}
	if last := s.store.last; last.token > 0 {
		state.Value = fmt.Sprintf("%q, token %d", last.value, last.token)
	}
	for _, c := range s.clients {
		state.Clients = append(state.Clients, c.state())
	}
	return state, nil
}

func (c *client) state() ClientState {
	state := ClientState{
		Name: c.name, Text: "has no lock",
		Holds: c.held != nil, Waits: c.cancel != nil, Paused: c.paused, OnTheWay: len(c.sent),
	}
	switch {
	case state.Holds:
		left := max(0, time.Until(c.held.lock.Deadline()))
		state.Text = fmt.Sprintf("has the lock, token %d; its context ends in %s unless renewed", c.held.token, seconds(left))
	case state.Waits:
		state.Text = "waits"
	}
	return state
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

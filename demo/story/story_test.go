package story

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const ttl = 6 * time.Second

// begin returns a story in a bubble, where time passes at once.
func begin(t *testing.T) *Story {
	s, err := New(ttl)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		synctest.Wait()
	})
	return s
}

// said fails the test unless the story has said the lines, in this order and each as the beginning of one.
func said(t *testing.T, s *Story, want ...string) {
	t.Helper()
	synctest.Wait()
	state := now(t, s)
	next := 0
	for _, line := range state.Log {
		if next < len(want) && strings.HasPrefix(line.Text, want[next]) {
			next++
		}
	}
	if next < len(want) {
		t.Fatalf("not said: %q in %+v", want[next], state.Log)
	}
}

func now(t *testing.T, s *Story) State {
	t.Helper()
	synctest.Wait()
	state, err := s.State()
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t)
		for i := range clients {
			s.Acquire(i)
			synctest.Wait()
		}
		if state := now(t, s); !strings.HasPrefix(state.Holder, "client 1, token 1, ") || !slices.Equal(state.Waiting, []string{"client 2", "client 3"}) {
			t.Fatalf("%+v", state)
		}
		s.Write(0)
		time.Sleep(3 * ttl)
		if state := now(t, s); !state.Clients[0].Holds {
			t.Fatalf("not renewed: %+v", state)
		}

		s.Pause(0)
		s.Write(0) // while the lock is still its own
		if state := now(t, s); state.Clients[0].OnTheWay != 1 || state.Value != `"client 1, write 1", token 1` {
			t.Fatalf("%+v", state)
		}
		time.Sleep(ttl + time.Second)
		s.Write(0)
		s.Write(1)
		s.Pause(0)
		said(t, s,
			"client 1: is paused",
			"client 1: context ended: lock lost",
			"client 2: has the lock, token 2",
			"client 1: does not write: it has no lock",
			`store: accepted: "client 2, write 1", token 2`,
			"client 1: goes on",
			"store: refused: token 1 is older than 2")

		s.Release(1)
		said(t, s, "client 2: releases the lock", "client 3: has the lock, token 3")
		if state := now(t, s); state.Value != `"client 2, write 1", token 2` || len(state.Waiting) != 0 {
			t.Errorf("%+v", state)
		}
	})
}

func TestStopWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t)
		s.Acquire(0)
		synctest.Wait()
		s.Acquire(1)
		synctest.Wait()
		s.Release(1)
		said(t, s, "client 2: no longer waits")
		s.Release(0)
		synctest.Wait()
		if state := now(t, s); state.Holder != "nobody" || len(state.Waiting) != 0 {
			t.Errorf("%+v", state)
		}
	})
}

func TestFailOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t)
		time.Sleep(10 * time.Second)
		s.Acquire(0)
		synctest.Wait()
		s.Acquire(1)
		synctest.Wait()
		if err := s.FailOver(); err != nil {
			t.Fatal(err)
		}
		state := now(t, s)
		if !state.Clients[0].Holds || !state.Clients[1].Holds || !strings.HasPrefix(state.Holder, "client 2, token 10001, ") {
			t.Fatalf("not two holders: %+v", state)
		}
		s.Write(0) // nobody with a greater token has written yet
		s.Write(1)
		s.Write(0)
		time.Sleep(ttl)
		said(t, s,
			"server: fails",
			"client 2: has the lock, token 10001",
			`store: accepted: "client 1, write 1", token 1`,
			`store: accepted: "client 2, write 1", token 10001`,
			"store: refused: token 1 is older than 10001",
			"client 1: context ended: lock lost")

		s.Acquire(0) // of the new server
		synctest.Wait()
		if state := now(t, s); !slices.Equal(state.Waiting, []string{"client 1"}) || !state.Clients[1].Holds {
			t.Errorf("%+v", state)
		}
		for range 2 { // who has a lock of either server before the last keeps it until its deadline
			if err := s.FailOver(); err != nil {
				t.Fatal(err)
			}
			if state := now(t, s); !state.Clients[0].Holds || !state.Clients[1].Holds {
				t.Errorf("%+v", state)
			}
			time.Sleep(time.Millisecond)
		}
		time.Sleep(ttl)
		if state := now(t, s); state.Clients[0].Holds || state.Clients[1].Holds || state.Holder != "nobody" {
			t.Errorf("%+v", state)
		}
	})
}

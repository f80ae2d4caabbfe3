package servers

import (
	"errors"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/internal/locktest"
)

var must = locktest.Must

// lives takes a server that keeps what was stored through its life, and down at the end: kept reports whether that is there.
func lives(t *testing.T, s *Server, kept func() (bool, error)) {
	t.Helper()
	ctx := locktest.Within(t, 5*time.Minute)
	addr, pid := s.Addr(), s.PID()
	must(t, s.Kill())
	if s.PID() != 0 {
		t.Error("a killed server has a pid")
	}
	if err := s.ready(locktest.Within(t, time.Second)); err == nil {
		t.Error("a killed server answers")
	}
	if err := s.Pause(); !errors.Is(err, ErrNotRunning) {
		t.Errorf("Pause of a killed server: %v", err)
	}
	must(t, s.Restart(ctx))
	if s.Addr() != addr || s.PID() == pid || s.PID() == 0 {
		t.Errorf("after Restart: %s pid %d, before: %s pid %d", s.Addr(), s.PID(), addr, pid)
	}
	if ok, err := kept(); err != nil || !ok {
		t.Errorf("after Restart: %v, %v", ok, err)
	}
	must(t, s.RestartEmpty(ctx))
	if ok, err := kept(); err != nil || ok {
		t.Errorf("after RestartEmpty: %v, %v", ok, err)
	}
	must(t, s.Pause())
	must(t, s.Stop())
}

// counts has a server count what send sends it, again and again, since counting does not count.
func counts(t *testing.T, s *Server, want int64, send func()) {
	t.Helper()
	ctx := locktest.Within(t, 2*time.Minute)
	var n int64
	for range 5 { // it may be late to count that an earlier client has quit
		before, err := s.Requests(ctx)
		must(t, err)
		send()
		again, err := s.Requests(ctx)
		must(t, err)
		if n = again - before; n == want {
			break
		}
	}
	if n != want {
		t.Errorf("%d requests were counted, %d were sent", n, want)
	}
}

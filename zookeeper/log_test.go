package zookeeper

import (
	"context"
	"log/slog"
	"testing"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/servers"
)

// hook is a log handler that does what a test says.
type hook struct {
	slog.Handler
	do func()
}

func (h hook) Enabled(context.Context, slog.Level) bool { return true }

func (h hook) Handle(context.Context, slog.Record) error { h.do(); return nil }

// A log handler that calls the Locker, or never returns, stops nothing.
func TestLogHandlerThatCallsTheLocker(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	hang := make(chan struct{})
	defer close(hang)
	for what, do := range map[string]func(locker.Locker){
		"hangs": func(locker.Locker) { <-hang },
		"calls": func(l locker.Locker) {
			if lock, err := l.TryAcquire(context.Background(), "in the handler"); err == nil {
				_ = lock.Release(context.Background())
			}
		},
	} {
		p := front(t, z.Addr())
		var l locker.Locker
		ready := make(chan struct{})
		handle := func() { <-ready; do(l) }
		l = open(t, []string{p.Addr()}, locker.WithLogger(slog.New(hook{discard.Handler(), handle})))
		close(ready)
		n := name(t)
		if !uses(t, l, n) {
			t.Errorf("%s: first use", what)
		}
		p.Cut()
		if !uses(t, l, n) {
			t.Errorf("%s: after a cut", what)
		}
	}
}

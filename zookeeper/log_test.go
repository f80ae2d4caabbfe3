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
	var l locker.Locker
	ready, hang := make(chan struct{}), make(chan struct{})
	defer close(hang)
	for what, do := range map[string]func(){
		"hangs": func() { <-hang },
		"calls": func() {
			<-ready
			if lock, err := l.TryAcquire(context.Background(), "in the handler"); err == nil {
				_ = lock.Release(context.Background())
			}
		},
	} {
		p := front(t, z.Addr())
		l = open(t, []string{p.Addr()}, locker.WithLogger(slog.New(hook{discard.Handler(), do})))
		if what == "calls" {
			close(ready)
		}
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

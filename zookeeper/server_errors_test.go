package zookeeper

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/servers"
)

// Whatever a server says that may pass, a waiting acquire goes on: with codes that the library has no name
// for, a session that is over for one request only, or one that has moved.
func TestErrorsThatMayPass(t *testing.T) {
	beside(t)
	z := servers.SharedZooKeeper(t)
	for _, code := range []int32{-1, -4, -7, -12, -100, -112, -118, -127, -999} {
		for what, op := range map[string]int32{"create": opMulti, "list": opGetChildren, "watch": opGetData} {
			t.Run(fmt.Sprint(what, code), func(t *testing.T) {
				n := name(t)
				holder := raw(t, []string{z.Addr()})
				h := exclusive(t, n)
				take(t, holder, h)
				m := spy(t, z.Addr())
				d := raw(t, []string{m.addr()})
				if _, err := d.session.conn.Sync("/"); err != nil { // greeted before
					t.Fatal(err)
				}
				m.mu.Lock()
				m.refuse, m.code, m.times = []int32{op}, code, 3
				m.mu.Unlock()
				c := exclusive(t, n)
				turn := begin(within(t, time.Minute), d, c)
				console(t, z.Addr()).nodeOf(c)
				eventually.Is(t, "three refusals", func() bool {
					m.mu.Lock()
					defer m.mu.Unlock()
					return m.refused == 3
				})
				release(t, holder, h)
				await(t, turn, "the turn").ok(t)
				release(t, d, c)
			})
		}
	}
}

// hook is a log handler that does what a test says.
type hook struct {
	slog.Handler
	do func()
}

func (h hook) Enabled(context.Context, slog.Level) bool  { return true }
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
		p := inFront(t, z.Addr())
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

// Close while the connection is being made, with a context that has ended: for the race detector.
func TestCloseWhileDialling(t *testing.T) {
	beside(t)
	z := servers.SharedZooKeeper(t)
	p := inFront(t, z.Addr())
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for i := range 30 {
		d, _, err := connect(within(t, 30*time.Second), []string{p.Addr()}, nil)
		if err != nil {
			t.Fatal(err)
		}
		p.Cut()
		time.Sleep(time.Duration(i%10) * 100 * time.Microsecond) // anywhere in the dialling
		start := time.Now()
		_ = d.Close(ended)
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("close took %v", took)
		}
		for range d.session.events { // until the library has ended
		}
	}
}

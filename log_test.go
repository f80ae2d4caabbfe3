package locker

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// callback is a slog.Handler that calls a function for each record, and for each question whether it is enabled, if there is one.
type callback struct {
	slog.Handler
	call func(r slog.Record)
	asks func() bool
}

func (h callback) Enabled(context.Context, slog.Level) bool { return h.asks == nil || h.asks() }
func (h callback) Handle(_ context.Context, r slog.Record) error {
	h.call(r)
	return nil
}
func (h callback) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h callback) WithGroup(string) slog.Handler      { return h }

// A handler may call the Locker that logs.
func TestLogHandlerCallsLocker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Locker
		called := make(chan error, 10)
		s := &script{}
		seen := claims(s, TimeClock{})
		l = open(t, s, WithLogger(slog.New(callback{call: func(slog.Record) {
			_, err := l.TryAcquire(context.Background(), "y")
			called <- err
		}})))
		acquire(t, l, "x")
		(<-seen).Lost(errBroken)
		if err := <-called; err != nil {
			t.Error(err)
		}
		closeAll(t, l)
	})
}

// A handler that hangs stops nothing: not a renewal, not a loss, and Close for a moment only.
func TestLogHandlerHangs(t *testing.T) {
	for what, handler := range map[string]func(hang chan struct{}) callback{
		"asked":   func(hang chan struct{}) callback { return callback{asks: func() bool { <-hang; return false }} },
		"handles": func(hang chan struct{}) callback { return callback{call: func(slog.Record) { <-hang }} },
	} {
		t.Run(what, func(t *testing.T) { logHandlerHangs(t, handler) })
	}
}

func logHandlerHangs(t *testing.T, handler func(hang chan struct{}) callback) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		l := open(t, &script{}, WithTTL(3*time.Second), WithLogger(slog.New(handler(hang))))
		lock := acquire(t, l, "x")
		<-lock.Context().Done()
		next := acquire(t, l, "x")
		if err := next.Release(context.Background()); err != nil {
			t.Error(err)
		}
		begin := time.Now()
		closeAll(t, l)
		if took := time.Since(begin); took > logPatience {
			t.Errorf("Close took %v", took)
		}
		close(hang)
	})
}

// What a handler does not want it is not given.
func TestLogHandlerNotEnabled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, err := NewConfig[struct{}]("script", nil, WithLogger(slog.New(callback{
			call: func(r slog.Record) { t.Errorf("given %q", r.Message) },
			asks: func() bool { return false },
		})))
		if err != nil {
			t.Fatal(err)
		}
		cfg.Logger.Warn("a warning")
		synctest.Wait()
	})
}

// What a slow handler cannot take is dropped, and the next record says how much.
func TestLogRecordsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		var handled, dropped atomic.Int64
		cfg, err := NewConfig[struct{}]("script", nil, WithLogger(slog.New(callback{call: func(r slog.Record) {
			<-hang
			handled.Add(1)
			r.Attrs(func(a slog.Attr) bool { dropped.Add(a.Value.Int64()); return true })
		}})))
		if err != nil {
			t.Fatal(err)
		}
		const all = 3 * maxRecords
		for i := range all {
			cfg.Logger.Info(fmt.Sprint(i))
		}
		close(hang)
		synctest.Wait()
		cfg.Logger.Info("the last")
		synctest.Wait()
		if n := handled.Load() + dropped.Load(); n != all+1 || dropped.Load() < maxRecords {
			t.Errorf("%d handled, %d dropped", handled.Load(), dropped.Load())
		}
	})
}

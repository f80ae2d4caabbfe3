package otel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/memory"
)

// telemetry is what an Observer has reported, and where to.
type telemetry struct {
	observer *locker.Observer
	reader   *metric.ManualReader
	spans    *tracetest.SpanRecorder
	tracers  *trace.TracerProvider
}

func newTelemetry(t *testing.T, opts ...Option) *telemetry {
	t.Helper()
	x := &telemetry{reader: metric.NewManualReader(), spans: tracetest.NewSpanRecorder()}
	x.tracers = trace.NewTracerProvider(trace.WithSpanProcessor(x.spans))
	opts = append(opts, WithMeterProvider(metric.NewMeterProvider(metric.WithReader(x.reader))), WithTracerProvider(x.tracers))
	var err error
	if x.observer, err = New(opts...); err != nil {
		t.Fatal(err)
	}
	return x
}

// metrics returns what the reader sees: the value, or the count of a histogram, by "name attributes".
func (x *telemetry) metrics(t *testing.T) map[string]int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := x.reader.Collect(context.Background(), &all); err != nil {
		t.Fatal(err)
	}
	result := make(map[string]int64)
	key := func(name string, set attribute.Set) string {
		var parts []string
		for _, a := range set.ToSlice() {
			parts = append(parts, strings.TrimPrefix(string(a.Key), "locker.")+"="+a.Value.Emit())
		}
		return name + " " + strings.Join(parts, " ")
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					result[key(m.Name, p.Attributes)] = int64(p.Count)
				}
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					result[key(m.Name, p.Attributes)] = p.Value
				}
			default:
				t.Errorf("%s is a %T", m.Name, data)
			}
		}
	}
	return result
}

func (x *telemetry) expect(t *testing.T, want map[string]int64) {
	t.Helper()
	if got := x.metrics(t); !maps.Equal(got, want) {
		for _, key := range slices.Sorted(maps.Keys(got)) {
			t.Logf("got %q: %d", key, got[key])
		}
		t.Errorf("want %v", want)
	}
}

func open(t *testing.T, s *memory.Store, x *telemetry) (locker.Locker, *memory.Link) {
	t.Helper()
	l, link, err := s.Remote(locker.WithObserver(x.observer))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close(context.Background()) })
	return l, link
}

// Every outcome of an acquisition and of a holding is counted, and the gauges return to zero.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTelemetry(t)
		ctx := t.Context()
		s := memory.NewStore(locker.WithTTL(3 * time.Second))
		l, _ := open(t, s, x)
		lock, err := l.Acquire(ctx, "a")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = l.TryAcquire(ctx, "a")
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, _ = l.Acquire(short, "a")
		gone, cancel := context.WithCancel(ctx)
		go func() { time.Sleep(10 * time.Millisecond); cancel() }()
		_, _ = l.Acquire(gone, "a")
		if _, err := l.Acquire(ctx, "b", locker.Shared()); err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = l.Acquire(ctx, "a", locker.Permits(1, 2)) }() // until Close
		time.Sleep(1500 * time.Millisecond)                              // a renewal
		synctest.Wait()
		x.expect(t, map[string]int64{
			"locker.acquire.duration backend=memory mode=exclusive outcome=acquired":  1,
			"locker.acquire.duration backend=memory mode=exclusive outcome=taken":     1,
			"locker.acquire.duration backend=memory mode=exclusive outcome=timeout":   1,
			"locker.acquire.duration backend=memory mode=exclusive outcome=cancelled": 1,
			"locker.acquire.duration backend=memory mode=shared outcome=acquired":     1,
			"locker.held backend=memory mode=exclusive":                               1,
			"locker.held backend=memory mode=shared":                                  1,
			"locker.waiting backend=memory mode=exclusive":                            0,
			"locker.waiting backend=memory mode=shared":                               0,
			"locker.waiting backend=memory mode=permits":                              1,
			"locker.renew.margin backend=memory":                                      2,
			"locker.lost backend=memory mode=exclusive reason=overdue":                0, // from which a first loss rises
			"locker.lost backend=memory mode=exclusive reason=gone":                   0,
			"locker.lost backend=memory mode=exclusive reason=reported":               0,
			"locker.lost backend=memory mode=shared reason=overdue":                   0,
			"locker.lost backend=memory mode=shared reason=gone":                      0,
			"locker.lost backend=memory mode=shared reason=reported":                  0,
		})
		s.Destroy("a") // then it is the waiter's
		synctest.Wait()
		time.Sleep(time.Second)
		if !errors.Is(context.Cause(lock.Context()), locker.ErrLost) {
			t.Fatal("not lost")
		}
		if err := l.Close(ctx); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		got := x.metrics(t)
		for _, key := range []string{"held backend=memory mode=exclusive", "held backend=memory mode=shared", "held backend=memory mode=permits", "waiting backend=memory mode=permits"} {
			if n := got["locker."+key]; n != 0 {
				t.Errorf("%s: %d", key, n)
			}
		}
		for key, want := range map[string]int64{
			"locker.lost backend=memory mode=exclusive reason=gone":             1,
			"locker.hold.duration backend=memory mode=exclusive outcome=lost":   1,
			"locker.hold.duration backend=memory mode=shared outcome=released":  1,
			"locker.hold.duration backend=memory mode=permits outcome=released": 1,
		} {
			if got[key] != want {
				t.Errorf("%s: %d, want %d", key, got[key], want)
			}
		}
	})
}

// A lock that was not renewed is lost because it is overdue, and an acquisition of which the server says no is an error.
// The spans say so without the names that are in the texts of the errors.
func TestReasons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTelemetry(t)
		s := memory.NewStore(locker.WithTTL(time.Second))
		l, link := open(t, s, x)
		lock, err := l.Acquire(t.Context(), "secret/a")
		if err != nil {
			t.Fatal(err)
		}
		link.Cut(errors.New("no way to secret/a"))
		if _, err := l.TryAcquire(t.Context(), "secret/b"); err == nil {
			t.Error("acquired without a server")
		}
		<-lock.Context().Done()
		link.Heal()
		_ = l.Close(t.Context())
		synctest.Wait()
		got := x.metrics(t)
		if got["locker.lost backend=memory mode=exclusive reason=overdue"] != 1 || got["locker.acquire.duration backend=memory mode=exclusive outcome=error"] != 1 {
			t.Error(got)
		}
		var said []string
		for _, span := range x.spans.Ended() {
			said = append(said, span.Status().Description)
		}
		if want := []string{"", "error", "overdue"}; !slices.Equal(said, want) {
			t.Errorf("the spans say %q, want %q", said, want)
		}
	})
}

// Names are shown by the user's function only.
func TestName(t *testing.T) {
	for _, c := range []struct {
		want string
		opts []Option
	}{
		{"", nil},
		{" name=orders", []Option{WithName(func(name string) string { prefix, _, _ := strings.Cut(name, "/"); return prefix })}},
		{"", []Option{WithName(func(string) string { return "" })}},
	} {
		x := newTelemetry(t, c.opts...)
		l, _ := open(t, memory.NewStore(), x)
		if _, err := l.TryAcquire(t.Context(), "orders/42"); err != nil {
			t.Fatal(err)
		}
		x.expect(t, map[string]int64{
			"locker.acquire.duration backend=memory mode=exclusive" + c.want + " outcome=acquired": 1,
			"locker.held backend=memory mode=exclusive" + c.want:                                   1,
			"locker.lost backend=memory mode=exclusive" + c.want + " reason=overdue":               0,
			"locker.lost backend=memory mode=exclusive" + c.want + " reason=gone":                  0,
			"locker.lost backend=memory mode=exclusive" + c.want + " reason=reported":              0,
		})
		if text := fmt.Sprint(x.spans.Started()[0].Attributes()); strings.Contains(text, "42") {
			t.Error(text)
		}
	}
}

// The wait is a span in that of the caller, and the holding another one with a link to it. The span of the wait is
// the one in the context that the driver and the lock are given.
func TestSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTelemetry(t)
		s := memory.NewStore()
		l, _ := open(t, s, x)
		ctx, root := x.tracers.Tracer("test").Start(t.Context(), "root")
		lock, err := l.Acquire(ctx, "a")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.TryAcquire(ctx, "a"); !errors.Is(err, locker.ErrNotAcquired) {
			t.Fatal(err)
		}
		s.Fail(errors.New("away"))
		_, _ = l.TryAcquire(ctx, "b")
		s.Heal()
		_, inner := x.tracers.Tracer("test").Start(lock.Context(), "inner")
		inner.End()
		if n := len(x.spans.Ended()); n != 4 {
			t.Errorf("%d spans have ended", n)
		}
		_ = lock.Release(ctx)
		root.End()
		synctest.Wait()
		byName := make(map[string][]trace.ReadOnlySpan)
		for _, span := range x.spans.Ended() {
			byName[span.Name()] = append(byName[span.Name()], span)
		}
		waits, holds := byName["locker.acquire"], byName["locker.hold"]
		if len(waits) != 3 || len(holds) != 1 {
			t.Fatalf("%d waits, %d holdings", len(waits), len(holds))
		}
		wait, hold, top := waits[0], holds[0], root.SpanContext().SpanID()
		if wait.Parent().SpanID() != top || hold.Parent().SpanID() != top || byName["inner"][0].Parent().SpanID() != wait.SpanContext().SpanID() {
			t.Error("wrong parents")
		}
		if len(hold.Links()) != 1 || !hold.Links()[0].SpanContext.Equal(wait.SpanContext()) {
			t.Errorf("links %v", hold.Links())
		}
		if waits[1].Status().Code != codes.Unset || waits[2].Status().Code != codes.Error {
			t.Errorf("status %v and %v", waits[1].Status(), waits[2].Status())
		}
		token := attribute.Int64("locker.token", lock.Token())
		if !slices.Contains(hold.Attributes(), token) {
			t.Errorf("attributes %v", hold.Attributes())
		}
	})
}

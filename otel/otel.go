// Package otel reports what a Locker does to OpenTelemetry, as metrics and traces:
//
//	observer, err := otel.New()
//	l, err := redis.New(client, locker.WithObserver(observer))
//
// # Metrics
//
//	locker.acquire.duration   s            histogram  backend, mode, outcome  how long acquisitions took
//	locker.hold.duration      s            histogram  backend, mode, outcome  how long locks were held
//	locker.held               {lock}       up-down    backend, mode           locks held now
//	locker.waiting            {call}       up-down    backend, mode           calls of Acquire under way now
//	locker.lost               {lock}       counter    backend, mode, reason   locks lost
//	locker.renew.margin       s            histogram  backend                 time left at the renewal of the lock that had least
//
// All attributes begin with "locker.": locker.backend is "redis", "etcd"; locker.mode is "exclusive", "shared" or
// "permits". The outcome of an acquisition is "acquired", "taken" (somebody else holds the name), "timeout" (its context's
// deadline), "cancelled" or "error"; that of a holding is "released" or "lost". The reason of a loss is "overdue" (not renewed
// in time), "gone" (the server said that it is not held) or "reported" (the session expired, or a watch told of the end).
//
// Their names in Prometheus are locker_acquire_duration_seconds and so on; grafana.json is a dashboard for these, and
// the folder example a program that shows them.
//
// A renewal margin that comes near to nothing says that locks will be lost: the network or the server is slow for this TTL.
//
// # Traces
//
// Each call of Acquire and TryAcquire has a span "locker.acquire", in which spans of the client library are nested. Each
// holding has a span "locker.hold", beside it, with a link to it and the token as the attribute locker.token. What is
// done in the lock's Context is nested in locker.acquire, and what is done in a context of the caller's own, as with
// locker.Do, in that of the caller.
//
// # Names
//
// Names of locks are often without number, and may be secret, so they are shown only by [WithName]. The texts of errors may
// have them: the status of a span says no more than the outcome of the acquisition or the reason of the loss.
package otel

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
)

// scope is the name of the instrumentation.
const scope = "github.com/seed80cd6120/locker/otel"

// An Option changes how an Observer is made.
type Option func(*config)

type config struct {
	meters  metric.MeterProvider
	tracers trace.TracerProvider
	name    func(string) string
}

// WithMeterProvider has the metrics made by p, and not by the global provider.
func WithMeterProvider(p metric.MeterProvider) Option { return func(c *config) { c.meters = p } }

// WithTracerProvider has the spans made by p, and not by the global provider.
func WithTracerProvider(p trace.TracerProvider) Option { return func(c *config) { c.tracers = p } }

// WithName adds an attribute locker.name to metrics and spans: what show returns for the name of a lock, unless that is
// empty. Each value is a series of its own in the store of metrics, so that show should return few: "orders" for
// every "orders/42".
func WithName(show func(name string) string) Option { return func(c *config) { c.name = show } }

// New returns an Observer for locker.WithObserver. Any number of Lockers may share it.
func New(opts ...Option) (*locker.Observer, error) {
	c := config{meters: otel.GetMeterProvider(), tracers: otel.GetTracerProvider()}
	for _, opt := range opts {
		opt(&c)
	}
	r := &reporter{tracer: c.tracers.Tracer(scope), name: c.name}
	if err := r.instruments(c.meters.Meter(scope)); err != nil {
		return nil, err
	}
	return &locker.Observer{Acquiring: r.acquiring, Lost: r.lost, Renewed: r.renewed}, nil
}

// reporter is behind an Observer.
type reporter struct {
	tracer trace.Tracer
	name   func(string) string

	acquireDuration, holdDuration, renewMargin metric.Float64Histogram
	held, waiting                              metric.Int64UpDownCounter
	losses                                     metric.Int64Counter
	counted                                    sync.Map // the attributes under which losses are counted
}

// instruments makes the instruments.
func (r *reporter) instruments(m metric.Meter) error {
	var errs [6]error
	buckets := metric.WithExplicitBucketBoundaries(.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300)
	seconds := metric.WithUnit("s")
	r.acquireDuration, errs[0] = m.Float64Histogram("locker.acquire.duration", buckets, seconds,
		metric.WithDescription("How long acquisitions took."))
	r.holdDuration, errs[1] = m.Float64Histogram("locker.hold.duration", buckets, seconds,
		metric.WithDescription("How long locks were held."))
	r.renewMargin, errs[2] = m.Float64Histogram("locker.renew.margin", buckets, seconds,
		metric.WithDescription("Time left at a renewal, of the lock that had least."))
	r.held, errs[3] = m.Int64UpDownCounter("locker.held", metric.WithUnit("{lock}"),
		metric.WithDescription("Locks held now."))
	r.waiting, errs[4] = m.Int64UpDownCounter("locker.waiting", metric.WithUnit("{call}"),
		metric.WithDescription("Calls of Acquire under way now."))
	r.losses, errs[5] = m.Int64Counter("locker.lost", metric.WithUnit("{lock}"),
		metric.WithDescription("Locks lost."))
	return errors.Join(errs[:]...)
}

// holding is what the context of a lock carries, so that its end is reported like its beginning.
type holding struct {
	caller context.Context // carries the caller's span
	wait   trace.Span
	attrs  []attribute.KeyValue
	key    attribute.Distinct       // of attrs
	set    metric.MeasurementOption // attrs
}

type holdingKey struct{}

// acquiring reports an acquisition and, by its context, the holding that comes of it.
func (r *reporter) acquiring(ctx context.Context, a locker.Attempt) (context.Context, func(*locker.Lock, error)) {
	h := &holding{caller: ctx, attrs: r.attributes(a)}
	set := attribute.NewSet(h.attrs...)
	h.key, h.set = set.Equivalent(), metric.WithAttributeSet(set)
	start := time.Now()
	next, span := r.tracer.Start(ctx, "locker.acquire", trace.WithAttributes(h.attrs...))
	h.wait = span
	if a.Wait {
		r.waiting.Add(ctx, 1, h.set)
	}
	return context.WithValue(next, holdingKey{}, h), func(lock *locker.Lock, err error) {
		outcome := outcomeOf(err)
		if a.Wait {
			r.waiting.Add(ctx, -1, h.set)
		}
		r.acquireDuration.Record(ctx, time.Since(start).Seconds(), h.set, with("outcome", outcome))
		if lock != nil {
			r.hold(lock, h)
		}
		span.SetAttributes(attribute.String("locker.outcome", outcome))
		if outcome == "error" {
			span.SetStatus(codes.Error, outcome)
		}
		span.End()
	}
}

// hold reports a holding, and its end when that comes.
func (r *reporter) hold(lock *locker.Lock, h *holding) {
	start := time.Now()
	caller := context.WithoutCancel(h.caller)
	_, span := r.tracer.Start(caller, "locker.hold", trace.WithLinks(trace.Link{SpanContext: h.wait.SpanContext()}),
		trace.WithAttributes(append(h.attrs, attribute.Int64("locker.token", lock.Token()))...))
	r.held.Add(caller, 1, h.set)
	if _, known := r.counted.LoadOrStore(h.key, nil); !known { // from 0, so that also the first loss is a rise
		for _, reason := range []string{"overdue", "gone", "reported"} {
			r.losses.Add(caller, 0, h.set, with("reason", reason))
		}
	}
	context.AfterFunc(lock.Context(), func() {
		outcome := "released"
		if cause := context.Cause(lock.Context()); errors.Is(cause, locker.ErrLost) {
			outcome = "lost"
			span.SetStatus(codes.Error, reasonOf(cause))
		}
		r.held.Add(caller, -1, h.set)
		r.holdDuration.Record(caller, time.Since(start).Seconds(), h.set, with("outcome", outcome))
		span.SetAttributes(attribute.String("locker.outcome", outcome))
		span.End()
	})
}

// lost counts a loss.
func (r *reporter) lost(lock *locker.Lock, reason error) {
	ctx := lock.Context()
	if h, ok := ctx.Value(holdingKey{}).(*holding); ok {
		r.losses.Add(ctx, 1, h.set, with("reason", reasonOf(reason)))
	}
}

// renewed records how much time was left.
func (r *reporter) renewed(renewal locker.Renewal) {
	if renewal.Margin > 0 {
		r.renewMargin.Record(context.Background(), renewal.Margin.Seconds(), with("backend", renewal.Backend))
	}
}

// attributes returns what metrics and spans of an acquisition have in common.
func (r *reporter) attributes(a locker.Attempt) []attribute.KeyValue {
	attrs := []attribute.KeyValue{attribute.String("locker.backend", a.Backend), attribute.String("locker.mode", a.Mode)}
	if r.name != nil {
		if name := r.name(a.Name); name != "" {
			attrs = append(attrs, attribute.String("locker.name", name))
		}
	}
	return attrs[:len(attrs):len(attrs)]
}

// outcomeOf returns the outcome of an acquisition.
func outcomeOf(err error) string {
	switch {
	case err == nil:
		return "acquired"
	case errors.Is(err, locker.ErrNotAcquired):
		return "taken"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "cancelled"
	}
	return "error"
}

// reasonOf returns the reason of a loss.
func reasonOf(err error) string {
	switch {
	case errors.Is(err, locker.ErrOverdue):
		return "overdue"
	case errors.Is(err, driver.ErrGone):
		return "gone"
	}
	return "reported"
}

// with returns one more attribute of a measurement.
func with(key, value string) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String("locker."+key, value))
}

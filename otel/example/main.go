// Command example shows the metrics of a Locker to Prometheus, at http://localhost:2112/metrics. The dashboard in
// ../grafana.json is for these metrics.
package main

import (
	"context"
	"errors"
	"log"
	"math/rand/v2"
	"net/http"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/memory"
	"github.com/seed80cd6120/locker/otel"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	registry := prometheus.NewRegistry()
	observer, err := newObserver(registry)
	if err != nil {
		log.Fatal(err)
	}
	l, err := memory.New(locker.WithObserver(observer))
	if err != nil {
		log.Fatal(err)
	}
	for range 4 {
		go work(ctx, l)
	}
	server := &http.Server{
		Addr: "localhost:2112", Handler: promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), ReadHeaderTimeout: time.Second,
	}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
	_ = l.Close(context.Background())
}

// newObserver returns an Observer whose metrics registry shows to Prometheus. Of the names of locks it shows what stands
// before the first "/".
func newObserver(registry *prometheus.Registry) (*locker.Observer, error) {
	reader, err := exporter.New(exporter.WithRegisterer(registry))
	if err != nil {
		return nil, err
	}
	return otel.New(
		otel.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))),
		otel.WithName(func(name string) string { kind, _, _ := strings.Cut(name, "/"); return kind }),
	)
}

// work takes a lock, again and again, as a worker would.
func work(ctx context.Context, l locker.Locker) {
	for ctx.Err() == nil {
		_ = locker.Do(ctx, l, "orders/42", func(ctx context.Context, _ *locker.Lock) error {
			select {
			case <-ctx.Done():
			case <-time.After(time.Duration(rand.N(200)) * time.Millisecond):
			}
			return nil
		})
	}
}

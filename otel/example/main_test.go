package main

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/memory"
)

var identifiers = regexp.MustCompile(`locker_[a-z_]+`)

// Every metric and every label that the dashboard asks for is there as Prometheus is shown it, and the dashboard leaves no
// metric out.
func TestDashboard(t *testing.T) {
	var shown []string
	synctest.Test(t, func(t *testing.T) { shown = scrape(t) })
	asked := queries(t)
	for _, name := range asked {
		if !slices.Contains(shown, name) {
			t.Errorf("grafana.json asks for %s, which is not there", name)
		}
	}
	for _, name := range []string{
		"locker_acquire_duration_seconds_bucket", "locker_hold_duration_seconds_bucket", "locker_held", "locker_waiting",
		"locker_lost_total", "locker_renew_margin_seconds_bucket",
	} {
		if !slices.Contains(asked, name) {
			t.Errorf("grafana.json does not ask for %s", name)
		}
	}
}

// queries returns the names of metrics and labels in the queries of the dashboard.
func queries(t *testing.T) (names []string) {
	t.Helper()
	text, err := os.ReadFile("../grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels     []struct{ Targets []struct{ Expr string } }
		Templating struct{ List []struct{ Query string } }
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, panel := range dashboard.Panels {
		if len(panel.Targets) == 0 {
			t.Error("a panel without a query")
		}
		for _, target := range panel.Targets {
			names = append(names, identifiers.FindAllString(target.Expr, -1)...)
		}
	}
	for _, variable := range dashboard.Templating.List {
		names = append(names, identifiers.FindAllString(variable.Query, -1)...)
	}
	return names
}

// scrape has all metrics made and returns the names of metrics and labels that Prometheus is shown.
func scrape(t *testing.T) []string {
	t.Helper()
	registry := prometheus.NewRegistry()
	observer, err := newObserver(registry)
	if err != nil {
		t.Fatal(err)
	}
	renewed, lost := make(chan struct{}, 100), make(chan struct{}, 100)
	tell := *observer
	tell.Renewed = func(r locker.Renewal) { observer.Renewed(r); renewed <- struct{}{} }
	tell.Lost = func(lock *locker.Lock, reason error) { observer.Lost(lock, reason); lost <- struct{}{} }
	store := memory.NewStore(locker.WithTTL(6 * time.Second))
	l, err := store.Locker(locker.WithObserver(&tell))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"orders/1", "orders/2"} {
		if _, err := l.Acquire(context.Background(), name); err != nil {
			t.Fatal(err)
		}
	}
	<-renewed
	store.Destroy("orders/1")
	<-lost
	if err := l.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	synctest.Wait() // until the ends of the locks have been reported
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return identifiers.FindAllString(w.Body.String(), -1)
}

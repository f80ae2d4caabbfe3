package faults

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed80cd6120/locker/internal/faults/history"
)

// Gap is the time from the end of a holding that was not given back to the next grant
// to somebody who was waiting.
type Gap struct {
	Kind string // "lost": from the signal to the holder; "death": from the kill
	Gap  time.Duration
	From *history.Holding
	To   *history.Holding
}

func (g Gap) String() string {
	return fmt.Sprintf("%v from %s of %v to the next grant", g.Gap.Round(100*time.Microsecond), g.Kind, g.From)
}

// gaps finds them in a history.
func gaps(h *history.History) []Gap {
	names := make(map[string][]*history.Holding)
	for _, l := range h.Holdings {
		names[l.Name] = append(names[l.Name], l)
	}
	var found []Gap
	for _, ls := range names {
		for i, l := range ls[:len(ls)-1] {
			next := ls[i+1]
			if _, destroyed := h.Destroyed(l); destroyed || !l.Exclusive() || !next.Exclusive() {
				continue
			}
			// One that did not run could not be told.
			ran := l.Lost-l.Alive < int64(100*time.Millisecond)
			if l.Lost != 0 && ran && next.Call < l.Lost {
				found = append(found, Gap{"lost", time.Duration(next.Grant - l.Lost), l, next})
			}
			ended := l.Lost != 0 || l.Release != 0
			if l.Died != 0 && !ended && next.Call < l.Died {
				found = append(found, Gap{"death", time.Duration(next.Grant - l.Died), l, next})
			}
		}
	}
	slices.SortFunc(found, func(a, b Gap) int { return cmp.Compare(a.From.Grant, b.From.Grant) })
	return found
}

// Spread is how some times are distributed, in milliseconds.
type Spread struct {
	N                       int
	Min, P10, P50, P90, Max float64
}

func spread(d []time.Duration) Spread {
	if len(d) == 0 {
		return Spread{}
	}
	d = slices.Clone(d)
	slices.Sort(d)
	at := func(q float64) float64 {
		return float64(d[int(q*float64(len(d)-1)+0.5)].Microseconds()) / 1000
	}
	return Spread{N: len(d), Min: at(0), P10: at(0.1), P50: at(0.5), P90: at(0.9), Max: at(1)}
}

// measured collects the gaps of all rows and campaigns, by backend and kind.
var measured struct {
	sync.Mutex
	gaps map[string]map[string][]time.Duration
}

func measure(backend string, h *history.History) {
	measured.Lock()
	defer measured.Unlock()
	if measured.gaps == nil {
		measured.gaps = make(map[string]map[string][]time.Duration)
	}
	kinds := measured.gaps[backend]
	if kinds == nil {
		kinds = make(map[string][]time.Duration)
		measured.gaps[backend] = kinds
	}
	for _, g := range gaps(h) {
		kinds[g.Kind] = append(kinds[g.Kind], g.Gap)
	}
}

// Measured returns the spread of all gaps so far, by backend and kind.
func Measured() map[string]map[string]Spread {
	measured.Lock()
	defer measured.Unlock()
	all := make(map[string]map[string]Spread)
	for backend, kinds := range measured.gaps {
		all[backend] = make(map[string]Spread)
		for kind, d := range kinds {
			all[backend][kind] = spread(d)
		}
	}
	return all
}

// Table writes spreads as a table for people.
func Table(all map[string]map[string]Spread) string {
	var b strings.Builder
	for _, part := range []struct{ kind, title string }{
		{"lost", "from the signal that the lock is lost to the next grant (ms; below 0: told late)"},
		{"death", "from the death of the holder to the next grant (ms)"},
	} {
		fmt.Fprintf(&b, "%s\n%-16s %6s %9s %9s %9s %9s %9s\n", part.title, "", "n", "min", "p10", "p50", "p90", "max")
		for _, backend := range sorted(all) {
			s, ok := all[backend][part.kind]
			if !ok || s.N == 0 {
				continue
			}
			fmt.Fprintf(&b, "%-16s %6d %9.1f %9.1f %9.1f %9.1f %9.1f\n", backend, s.N, s.Min, s.P10, s.P50, s.P90, s.Max)
		}
	}
	return b.String()
}

func sorted[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// keepFolder is where pictures of refused histories go: they have to outlive the test.
func keepFolder() string {
	if dir := os.Getenv("LOCKER_FAULTS_DIR"); dir != "" {
		return dir
	}
	return os.TempDir()
}

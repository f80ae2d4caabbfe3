package faults

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Spread is how some times are distributed, in milliseconds.
type Spread struct {
	N                       int
	Min, P10, P50, P90, Max float64
}

func spread(d []time.Duration) Spread {
	slices.Sort(d)
	at := func(q float64) float64 {
		return float64(d[int(q*float64(len(d)-1)+0.5)].Microseconds()) / 1000
	}
	return Spread{N: len(d), Min: at(0), P10: at(0.1), P50: at(0.5), P90: at(0.9), Max: at(1)}
}

// spreads returns the spread of all gaps so far, by backend and kind.
func spreads() map[string]map[string]Spread {
	measured.Lock()
	defer measured.Unlock()
	all := make(map[string]map[string]Spread)
	for of, d := range measured.gaps {
		backend, kind := of[0], of[1]
		if all[backend] == nil {
			all[backend] = make(map[string]Spread)
		}
		all[backend][kind] = spread(d)
	}
	return all
}

// table writes spreads as a table for people.
func table(all map[string]map[string]Spread) string {
	var b strings.Builder
	for _, part := range []struct{ kind, title string }{
		{"lost", "from the signal that the lock is lost to the next grant (ms; below 0: told late)"},
		{"death", "from the death of the holder to the next grant (ms)"},
	} {
		fmt.Fprintf(&b, "%s\n%-16s %6s %9s %9s %9s %9s %9s\n", part.title, "", "n", "min", "p10", "p50", "p90", "max")
		for _, backend := range slices.Sorted(maps.Keys(all)) {
			if s := all[backend][part.kind]; s.N > 0 {
				fmt.Fprintf(&b, "%-16s %6d %9.1f %9.1f %9.1f %9.1f %9.1f\n", backend, s.N, s.Min, s.P10, s.P50, s.P90, s.Max)
			}
		}
	}
	return b.String()
}

// report prints what was measured. After a full run of everything it writes it to results/lateness.json.
func report() error {
	all := spreads()
	if len(all) == 0 {
		return nil
	}
	fmt.Print(table(all))
	if !Full || flag.Lookup("test.run").Value.String() != "" {
		return nil
	}
	text, err := json.MarshalIndent(map[string]any{
		"unit":  "ms",
		"lost":  "from the signal that a lock is lost to the next grant",
		"death": "from the death of a holder to the next grant",
		"ttl":   "2 s, but for the rows that say otherwise",
		"gaps":  all,
	}, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll("results", 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join("results", "lateness.json"), append(text, '\n'), 0o644)
}

// Package finding says how what was found about servers is told.
package finding

import "context"

// Severity is how bad a finding is.
type Severity string

// The severities.
const (
	OK      Severity = "ok"      // as it should be
	Unknown Severity = "unknown" // the server does not tell
	Warning Severity = "warning" // a promise may break in a case that the finding names
	Broken  Severity = "broken"  // a promise is broken, or will be
)

// Finding is one thing about one server.
type Finding struct {
	Severity Severity `json:"severity"`
	Server   string   `json:"server"`
	What     string   `json:"what"`            // what was found
	Means    string   `json:"means,omitempty"` // for the locks
	Do       string   `json:"do,omitempty"`    // about it
}

// Check examines the servers of a URL. The error says that they could not be reached at all.
type Check func(ctx context.Context, url string) ([]Finding, error)

// Worst returns the greatest severity among findings.
func Worst(findings []Finding) Severity {
	order := map[Severity]int{OK: 0, Unknown: 1, Warning: 2, Broken: 3}
	worst := OK
	for _, f := range findings {
		if order[f.Severity] > order[worst] {
			worst = f.Severity
		}
	}
	return worst
}

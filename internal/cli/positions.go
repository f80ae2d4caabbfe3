//go:build unix

package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/seed80cd6120/locker"
)

// queue is a name with its holders and waiters, as JSON has it.
type queue struct {
	Name    string     `json:"name"`
	Holders []position `json:"holders"`
	Waiters []position `json:"waiters"`
}

// position is a holder or waiter, as JSON has it.
type position struct {
	ID    string     `json:"id"`
	Owner string     `json:"owner"`
	Kind  string     `json:"kind"`
	Token int64      `json:"token,omitempty"`
	Since *time.Time `json:"since,omitempty"`
	// Left is for how many seconds the servers keep the place if they hear nothing more.
	Left float64 `json:"left_seconds,omitempty"`
}

// queueOf makes a queue of what Inspect has returned.
func queueOf(name string, positions []locker.Position) queue {
	q := queue{Name: name, Holders: []position{}, Waiters: []position{}}
	for _, p := range positions {
		if p.Held {
			q.Holders = append(q.Holders, positionOf(p))
		} else {
			q.Waiters = append(q.Waiters, positionOf(p))
		}
	}
	return q
}

func positionOf(p locker.Position) position {
	out := position{ID: p.ID, Owner: p.Owner, Kind: p.Kind(), Token: p.Token, Left: p.Left.Seconds()}
	if !p.Since.IsZero() {
		out.Since = &p.Since
	}
	return out
}

// writeJSON writes v in one line.
func writeJSON(w io.Writer, v any) error { return json.NewEncoder(w).Encode(v) }

// table writes rows in columns.
func table(w io.Writer, rows ...[]string) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	_ = t.Flush()
}

// table returns the queue as rows of a table.
func (q queue) table(now time.Time) [][]string {
	rows := [][]string{{"", "KIND", "OWNER", "TOKEN", "SINCE", "LEFT", "ID"}}
	for _, p := range q.Holders {
		rows = append(rows, append([]string{"holds"}, p.row(now)...))
	}
	for n, p := range q.Waiters {
		rows = append(rows, append([]string{"waits " + strconv.Itoa(n+1)}, p.row(now)...))
	}
	return rows
}

func (p position) row(now time.Time) []string {
	token := "-"
	if p.Token != 0 {
		token = strconv.FormatInt(p.Token, 10)
	}
	left := "-"
	if p.Left > 0 {
		left = rounded(time.Duration(p.Left * float64(time.Second)))
	}
	return []string{p.Kind, printable(p.Owner), token, p.since(now), left, p.ID}
}

// since returns how long ago the position was granted or joined the queue.
func (p position) since(now time.Time) string {
	if p.Since == nil {
		return "-"
	}
	return rounded(max(now.Sub(*p.Since), 0)) + " ago"
}

// rounded returns a duration as people read it.
func rounded(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < 10*time.Minute:
		return d.Round(time.Second).String()
	}
	return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
}

// printable returns text as it is if a terminal shows it so, else quoted.
func printable(text string) string {
	if quoted := strconv.Quote(text); text == "" || quoted[1:len(quoted)-1] != text {
		return quoted
	}
	return text
}

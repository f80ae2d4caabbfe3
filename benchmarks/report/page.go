package report

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/measure"
)

// shortColumns are what the short table has of each contender.
var shortColumns = []struct {
	head                     string
	experiment, kase, metric string
}{
	{"alone, pairs/s", "alone", "", "rate"},
	{"p50, ms", "alone", "", pairP50},
	{"16 clients, locks/s", "contended", sixteen, "rate"},
	{"p99, ms", "contended", sixteen, "acquire p99"},
	{"luckiest / unluckiest", "contended", sixteen, "largest/smallest"},
	{"idle waiter, requests/s", "waiting", hundred, "requests per waiter"},
	{"out of order, %", "fairness", twentyFour, "out of order"},
	{"after a kill, ms", "death", "killed, TTL 2s", "next holder"},
}

// Page writes the figures for docs/comparison.md: what a lock costs over a network, if that was measured, and the short table; and
// returns their plots, which lie beside the page.
func Page(w io.Writer, in Input) ([]Plot, error) {
	t := Table{Head: []string{""}}
	for _, c := range shortColumns {
		t.Head = append(t.Head, c.head)
	}
	for _, c := range in.Plan.Contenders {
		if row, ok := shortRow(in, c); ok && isShown(c) {
			t.Rows = append(t.Rows, row)
		}
	}
	drawn := plots(in)
	link := func(name string) string {
		i := slices.IndexFunc(drawn, func(p Plot) bool { return p.Name == name })
		return fmt.Sprintf("\n![%s](%s.svg)\n", drawn[i].Caption, name)
	}
	if !slices.ContainsFunc(drawn, func(p Plot) bool { return p.Name == ratesName }) {
		return nil, errors.New("the run has no figures of 16 clients on one name, of two contenders at least")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nMedians of `%s` (%s form), %s, on %s; %s; all servers and clients on that one machine. The number behind a name is that of the servers.",
		in.Command, in.Plan.Depth, in.Outcome.Started.Format("2006-01-02"), in.Machine, versions(in.Outcome.Versions))
	if in.Machine.Busy() {
		b.WriteString(" The machine had other work meanwhile.")
	}
	b.WriteByte('\n')
	if all, delays := costs(in); len(all) > 0 {
		b.WriteString(link(costName) + "\n")
		markdownTable(&b, costTable(all, delays))
		b.WriteString("\nOn one machine, without a network:\n")
	}
	b.WriteByte('\n')
	markdownTable(&b, t)
	b.WriteString(link(ratesName))
	_, err := io.WriteString(w, b.String())
	return drawn, err
}

func shortRow(in Input, c contender.Contender) (row []string, ok bool) {
	row = []string{rowName(c)}
	r := in.Outcome.Results
	for _, col := range shortColumns {
		cell := ""
		if v := r.Values(of(col.experiment, col.kase, c.Name, col.metric)); len(v) > 0 {
			cell, ok = number(measure.Median(v)), true
		}
		row = append(row, cell)
	}
	return row, ok
}

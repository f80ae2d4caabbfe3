package report

import (
	"fmt"
	"io"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/experiment"
	"github.com/seed80cd6120/locker/benchmarks/measure"
)

// ReadmePlot is the name of the one plot that the project's README shows.
const ReadmePlot = "readme"

// shortColumns are what the short table has of each contender.
var shortColumns = []struct {
	head                     string
	experiment, kase, metric string
}{
	{"alone, pairs/s", "alone", "", "rate"},
	{"p50 ms", "alone", "", pairP50},
	{"16 clients, locks/s", "contended", sixteen, "rate"},
	{"p99 ms", "contended", sixteen, "acquire p99"},
	{"largest share / smallest", "contended", sixteen, "largest/smallest"},
	{"an idle waiter's requests/s", "waiting", hundred, "requests per waiter"},
	{"ms until the next after a kill, TTL 2 s", "death", "killed, TTL 2s", "next holder"},
}

// Readme writes the short table for the project's README and returns its plot.
func Readme(w io.Writer, in Input) (Plot, error) {
	t := Table{Head: []string{""}}
	for _, c := range shortColumns {
		t.Head = append(t.Head, c.head)
	}
	var shown []contender.Contender
	for _, c := range in.Plan.Contenders {
		if c.Setup.Variant != contender.Usual || c.Role == contender.Exhibit || c.Role == contender.Floor {
			continue
		}
		row := []string{c.Name}
		any := false
		for _, col := range shortColumns {
			cell := ""
			if v := in.Outcome.Results.Values(of(col.experiment, col.kase, c.Name, col.metric)); len(v) > 0 {
				cell, any = number(measure.Median(v)), true
			}
			row = append(row, cell)
		}
		if any {
			t.Rows = append(t.Rows, row)
			shown = append(shown, c)
		}
	}
	if err := writeShort(w, in, t); err != nil {
		return Plot{}, err
	}
	for _, e := range in.Plan.Experiments {
		if e.Name != "contended" {
			continue
		}
		narrow := in
		narrow.Plan.Contenders = shown
		p, _ := dots(narrow, &e, experiment.Case{Name: sixteen}, experiment.Metric{Name: "rate", Unit: "/s", Better: 1})
		p.Name = ReadmePlot
		return p, nil
	}
	return Plot{}, nil
}

func writeShort(w io.Writer, in Input, t Table) error {
	d := &Document{
		Title: "The comparison in short",
		Intro: []string{fmt.Sprintf("Medians of one run of `%s` on %s; all servers on the same machine. Servers: %s. The number behind a name is how many.",
			in.Command, in.Machine, versions(in.Outcome.Versions))},
		Sections: []Section{{Title: "Figures", Tables: []Table{t}}},
	}
	if s, ok := whichSection(in); ok {
		d.Sections = append(d.Sections, s)
	}
	return Markdown(w, d, "")
}

package report

import (
	"fmt"
	"image/color"
	"slices"
	"strings"
	"time"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/experiment"
	"github.com/seed80cd6120/locker/benchmarks/machine"
	"github.com/seed80cd6120/locker/benchmarks/measure"
	"github.com/seed80cd6120/locker/benchmarks/site"
)

// Input is what a report is made of.
type Input struct {
	Command string // by which it was made
	Machine machine.Info
	Plan    experiment.Plan
	Outcome *experiment.Outcome
	LeftOut []string // what was not measured and how to get it
}

// Build makes the document.
func Build(in Input) *Document {
	d := &Document{
		Title: "Locks compared",
		Intro: []string{
			fmt.Sprintf("Measured on %s, %s, in %v (%s form).", in.Outcome.Started.Format("2006-01-02"), in.Machine, in.Outcome.Took.Round(time.Second), in.Plan.Depth),
			"Servers: " + versions(in.Outcome.Versions) + ".",
		},
	}
	if in.Machine.Busy() {
		d.Intro = append(d.Intro, fmt.Sprintf("The machine had other work (load average %.1f on %d cores when this began): times are longer and spreads wider than they need be.", in.Machine.Load, in.Machine.Cores))
	}
	d.Sections = append(d.Sections, method(in))
	for i := range in.Plan.Experiments {
		if s, ok := chapter(in, &in.Plan.Experiments[i]); ok {
			d.Sections = append(d.Sections, s)
		}
	}
	if s, ok := latencySection(in); ok {
		d.Sections = append(d.Sections, s)
	}
	if s, ok := missing(in); ok {
		d.Sections = append(d.Sections, s)
	}
	if s, ok := whichSection(in); ok {
		d.Sections = append(d.Sections, s)
	}
	if s, ok := askedSection(in); ok {
		d.Sections = append(d.Sections, s)
	}
	return d
}

func versions(all map[string]string) string {
	var list []string
	for _, v := range all {
		if v != "none" && v != "" && !slices.Contains(list, v) {
			list = append(list, v)
		}
	}
	slices.Sort(list)
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

// method is the chapter on how things were measured.
func method(in Input) Section {
	s := Section{
		Title: "How it was measured",
		Brief: true,
		Text: []string{
			"Everything ran on one machine: clients, servers and, where there are several nodes, all of them. There is no network between them but the loopback, so what is compared is the number of round trips, of writes to the disk, and the work that each takes; a real network adds its own time to every round trip.",
			fresh(in) + "The contenders take turns (A B, B A): each repetition of a case is done with all of them before the next one begins, which goes in the opposite order, so that nobody always comes first to servers that have rested. Figures are medians of the repetitions, followed by half of their range in percent (±). Ratios are medians of the ratios of paired repetitions. Latencies are kept in HDR histograms. Requests are counted by the servers, not by the clients.",
			"Command: `" + in.Command + "`. " + parts(in.Outcome.Parts),
		},
	}
	used := map[contender.Service]bool{}
	for _, c := range in.Plan.Contenders {
		used[c.Setup.Service] = true
	}
	for _, service := range []contender.Service{contender.Redis, contender.ZooKeeper, contender.Etcd, contender.Postgres, contender.MariaDB} {
		if used[service] {
			s.List = append(s.List, fmt.Sprintf("%s: %s", service, site.Durability[service]))
		}
	}
	measured := map[string]bool{}
	for _, series := range in.Outcome.Results.All() {
		measured[series.Contender] = true
	}
	t := Table{Caption: "Contenders", Head: []string{"name", "is", "servers", "notes"}, Left: true}
	for _, c := range in.Plan.Contenders {
		if !measured[c.Name] {
			continue
		}
		t.Rows = append(t.Rows, []string{c.Name, string(c.Role), c.Setup.String(), c.Note})
	}
	s.Tables = []Table{t}
	return s
}

// parts says how long each experiment took.
func parts(all []experiment.Part) string {
	var list []string
	for _, p := range all {
		list = append(list, fmt.Sprintf("%s %.0f s", p.Name, p.Seconds))
	}
	if len(list) == 0 {
		return ""
	}
	return "It took, experiment by experiment: " + strings.Join(list, ", ") + "."
}

// fresh says where the servers came from.
func fresh(in Input) string {
	var given []string
	for _, service := range []contender.Service{contender.Redis, contender.ZooKeeper, contender.Etcd, contender.Postgres, contender.MariaDB} {
		if len(in.Plan.Given[service]) > 0 {
			given = append(given, string(service))
		}
	}
	if len(given) == 0 {
		return "Every server was started for this run, empty. "
	}
	return "Servers that ran already were used for " + strings.Join(given, ", ") + " (where enough addresses were given), with whatever they hold and whatever else they do; what has to break servers started its own. "
}

// chapter is one experiment: a table for each case.
func chapter(in Input, e *experiment.Experiment) (Section, bool) {
	s := Section{Title: e.Title, Brief: true, Text: []string{e.Question, e.Method}}
	for _, k := range e.Cases(in.Plan.Depth) {
		t, ok := caseTable(in, e, k)
		if ok {
			s.Tables = append(s.Tables, t)
		}
	}
	if len(s.Tables) == 0 {
		return s, false
	}
	for _, m := range e.Metrics {
		name := m.Name
		if m.Unit != "" {
			name += " (" + m.Unit + ")"
		}
		s.List = append(s.List, fmt.Sprintf("%s: %s", name, m.Meaning))
	}
	for _, f := range in.Outcome.Results.Failures() {
		if f.Experiment == e.Name {
			s.Notes = append(s.Notes, fmt.Sprintf("%s, %s: %s", f.Contender, f.Case, oneLine(f.Reason)))
		}
	}
	s.Plots = plots(in, e)
	return s, true
}

func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 200 {
		s = s[:200] + "..."
	}
	return s
}

func caseTable(in Input, e *experiment.Experiment, k experiment.Case) (Table, bool) {
	t := Table{Caption: k.Name, Head: []string{""}, Minor: map[int]bool{}}
	var shown []experiment.Metric
	for _, m := range e.Metrics {
		for _, c := range in.Plan.Contenders {
			if in.Outcome.Results.Has(key(e, k, c, m)) {
				shown = append(shown, m)
				t.Minor[len(shown)] = m.Minor
				head := m.Name
				if m.Unit != "" {
					head += noBreak + m.Unit
				}
				t.Head = append(t.Head, head)
				break
			}
		}
	}
	for _, c := range in.Plan.Contenders {
		row := []string{c.Name}
		any := false
		for _, m := range shown {
			values := in.Outcome.Results.Values(key(e, k, c, m))
			any = any || len(values) > 0
			row = append(row, figure(values))
		}
		if any {
			t.Rows = append(t.Rows, row)
		}
	}
	return t, len(t.Rows) > 0
}

func key(e *experiment.Experiment, k experiment.Case, c contender.Contender, m experiment.Metric) measure.Key {
	return measure.Key{Experiment: e.Name, Case: k.Name, Contender: c.Name, Metric: m.Name}
}

// figure writes the median and spread of a series.
func figure(values []float64) string {
	if len(values) == 0 {
		return ""
	}
	median := measure.Median(values)
	least, greatest := measure.Spread(values)
	return number(median) + spread(median, least, greatest)
}

// latencySection draws how latencies are distributed, for those who stand on one kind of
// server each.
func latencySection(in Input) (Section, bool) {
	s := Section{Title: "Latencies", Brief: true, Text: []string{"The further to the right, the rarer: what lies right of 99 % happened to one in a hundred."}}
	for _, what := range []struct{ experiment, kase, metric, title string }{
		{"alone", "", "acquire+release", "Alone, acquire and release"},
		{"contended", sixteen, "acquire", "16 clients on one name, from asking to holding"},
		{"contended", sixteen, "hand-over", "16 clients on one name, from release to the next holder"},
	} {
		for _, service := range []contender.Service{contender.Redis, contender.ZooKeeper, contender.Etcd, contender.Postgres, contender.MariaDB} {
			var names []string
			var all [][]measure.Point
			var tints []color.Color
			for _, c := range in.Plan.Contenders {
				h := in.Outcome.Results.Curve(of(what.experiment, what.kase, c.Name, what.metric))
				if c.Setup.Service == service && c.Setup.Variant == contender.Usual && h != nil {
					names, all, tints = append(names, c.Name), append(all, h), append(tints, colours[c.Role])
				}
			}
			if len(all) == 0 {
				continue
			}
			if p, ok := curves(fmt.Sprintf("%s (%s)", what.title, service), names, all, tints); ok {
				s.Plots = append(s.Plots, p)
			}
		}
	}
	return s, len(s.Plots) > 0
}

// missing is the chapter on what was left out.
func missing(in Input) (Section, bool) {
	s := Section{Title: "Left out", List: slices.Clone(in.LeftOut)}
	// What failed for one reason in one experiment is one line.
	type cause struct{ experiment, reason string }
	var causes []cause
	who := map[cause][]string{}
	for _, f := range in.Outcome.Results.Failures() {
		c := cause{f.Experiment, oneLine(f.Reason)}
		if _, ok := who[c]; !ok {
			causes = append(causes, c)
		}
		name := f.Contender
		if f.Case != "" {
			name += " (" + f.Case + ")"
		}
		who[c] = append(who[c], name)
	}
	for _, c := range causes {
		if c.experiment == "" {
			s.List = append(s.List, c.reason)
			continue
		}
		s.List = append(s.List, fmt.Sprintf("%s, %s failed: %s", c.experiment, strings.Join(who[c], ", "), c.reason))
	}
	return s, len(s.List) > 0
}

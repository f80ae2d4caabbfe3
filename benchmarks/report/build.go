package report

import (
	"fmt"
	"maps"
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
	add := func(s Section, ok bool) {
		if ok {
			d.Sections = append(d.Sections, s)
		}
	}
	add(method(in), true)
	if p := plots(in); len(p) > 0 {
		add(Section{Title: "At a glance", Brief: true, Plots: p}, true)
	}
	for i := range in.Plan.Experiments {
		add(chapter(in, &in.Plan.Experiments[i]))
	}
	add(missing(in))
	add(whichSection(in))
	add(askedSection(in))
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
			fresh(in) + "The contenders take turns (A B, B A): each repetition of a case is done with all of them before the next one begins, which goes in the opposite order, so that nobody always comes first to servers that have rested. Figures are medians of the repetitions, followed by half of their range in percent (±). Ratios are medians of the ratios of paired repetitions. Latencies are kept in HDR histograms. A client asks again when it has given back, and not by a timetable: latencies are those of clients that always want the lock, and one that waits long does not ask meanwhile. Requests are counted by the servers, not by the clients.",
			"Command: `" + in.Command + "`. " + parts(in.Outcome.Parts),
		},
	}
	used := map[contender.Service]bool{}
	for _, c := range in.Plan.Contenders {
		used[c.Setup.Service] = true
	}
	for _, service := range contender.Services[1:] {
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
	for _, service := range contender.Services[1:] {
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
		better := map[int]string{1: "; more is better", -1: "; less is better"}[m.Better]
		s.List = append(s.List, fmt.Sprintf("%s: %s%s", name, m.Meaning, better))
	}
	return s, true
}

func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 200 {
		s = s[:200] + "..."
	}
	return s
}

// caseTable has a line for each contender and a column for each metric, of what was measured.
func caseTable(in Input, e *experiment.Experiment, k experiment.Case) (Table, bool) {
	t := Table{Caption: k.Name, Head: []string{""}, Minor: map[int]bool{}}
	has := func(c contender.Contender, m experiment.Metric) bool { return in.Outcome.Results.Has(key(e, k, c, m)) }
	var shown []experiment.Metric
	for _, m := range e.Metrics {
		if !slices.ContainsFunc(in.Plan.Contenders, func(c contender.Contender) bool { return has(c, m) }) {
			continue
		}
		shown = append(shown, m)
		t.Minor[len(shown)] = m.Minor
		head := m.Name
		if m.Unit != "" {
			head += noBreak + m.Unit
		}
		t.Head = append(t.Head, head)
	}
	for _, c := range in.Plan.Contenders {
		if !slices.ContainsFunc(shown, func(m experiment.Metric) bool { return has(c, m) }) {
			continue
		}
		row := []string{c.Name}
		for _, m := range shown {
			row = append(row, figure(in.Outcome.Results.Values(key(e, k, c, m))))
		}
		t.Rows = append(t.Rows, row)
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

// missing is the chapter on what was left out. What failed for one reason in one experiment is one line.
func missing(in Input) (Section, bool) {
	s := Section{Title: "Left out", List: slices.Clone(in.LeftOut)}
	who := map[string][]string{}
	for _, f := range in.Outcome.Results.Failures() {
		name := f.Contender
		if f.Case != "" {
			name += " (" + f.Case + ")"
		}
		cause := f.Experiment + "\x00" + oneLine(f.Reason)
		who[cause] = append(who[cause], name)
	}
	for _, cause := range slices.Sorted(maps.Keys(who)) {
		experiment, reason, _ := strings.Cut(cause, "\x00")
		if experiment != "" {
			reason = fmt.Sprintf("%s, %s failed: %s", experiment, strings.Join(who[cause], ", "), reason)
		}
		s.List = append(s.List, reason)
	}
	return s, len(s.List) > 0
}

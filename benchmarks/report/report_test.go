package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/experiment"
	"github.com/seed80cd6120/locker/benchmarks/measure"
	"github.com/seed80cd6120/locker/benchmarks/ours"
	"github.com/seed80cd6120/locker/internal/locktest"
)

var must = locktest.Must

// sample is a run of which only the figures were made up.
func sample() Input {
	redis := contender.Setup{Service: contender.Redis, Nodes: 1}
	etcd := contender.Setup{Service: contender.Etcd, Nodes: 1}
	r := &measure.Results{}
	put := func(experiment, kase, who, metric string, values ...float64) {
		for _, v := range values {
			r.Add(of(experiment, kase, who, metric), v)
		}
	}
	put("alone", "", "redis", "rate", 8000, 9000, 8500)
	put("alone", "", "redislock", "rate", 12500, 12500, 12500)
	put("alone", "", "redis", pairP50, .1, .11, .12)
	put("alone", "", "etcd-1", pairP50, 1, 1.1, 1.2)
	put("alone", "", "redis", "requests", 2, 2, 2)
	put("contended", sixteen, "redis", "rate", 11000)
	put("contended", sixteen, "redislock", "rate", 10000)
	put("contended", sixteen, "redis", "acquire p99", 5)
	put("contended", sixteen, "redislock", "acquire p99", 5.1)
	put("contended", sixteen, "redis", "largest/smallest", 1.01)
	put("contended", sixteen, "redislock", "largest/smallest", math.Inf(1))
	put("fairness", "24 clients", "redis", "out of order", 0)
	put("fairness", "24 clients", "redislock", "out of order", 51)
	r.Fail(measure.Failure{Experiment: "alone", Contender: "rueidislock", Reason: "it\nhung <script>"})
	return Input{
		Command: "compare -quick",
		Plan: experiment.Plan{Depth: experiment.Quick, Experiments: experiment.All(), Contenders: []contender.Contender{
			{Name: "redis", Family: "redis", Role: contender.Ours, Setup: redis, Note: "a | b"},
			{Name: "etcd-1", Family: "etcd", Role: contender.Ours, Setup: etcd},
			{Name: "redislock", Family: "redislock", Role: contender.Rival, Setup: redis},
			{Name: "absent", Family: "absent", Role: contender.Rival, Setup: redis},
		}},
		Outcome: &experiment.Outcome{Results: r, Versions: map[string]string{"redis-1": "Redis 7.0.15", "etcd-1": "etcd 3.7.3", "memory": "none"}, Started: time.Now()},
		LeftOut: []string{"ZooKeeper: run make setup"},
	}
}

func TestEveryFormSaysTheSame(t *testing.T) {
	in := sample()
	d := Build(in)
	forms := map[string]func(*bytes.Buffer) error{
		"terminal": func(b *bytes.Buffer) error { return Terminal(b, d) },
		"markdown": func(b *bytes.Buffer) error { return Markdown(b, d) },
		"html":     func(b *bytes.Buffer) error { return HTML(b, d) },
	}
	for name, write := range forms {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		text := b.String()
		for _, want := range []string{
			"Redis 7.0.15", "8,500 ±6%", "0.11 ±9%", "∞",
			"ZooKeeper: run make setup", "rueidislock",
			"Which one?", "Already running etcd", "10 times",
			"at least 0.85 of redislock", "0.68", "NO",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not say %q", name, want)
			}
		}
		if strings.Contains(text, "absent") {
			t.Errorf("%s shows a contender that was not measured", name)
		}
	}
}

func TestHTMLNeedsNoNetwork(t *testing.T) {
	var b bytes.Buffer
	must(t, HTML(&b, Build(sample())))
	page := b.String()
	if strings.Count(page, "<svg") != 1 {
		t.Error("there is no plot in the page")
	}
	if strings.Contains(page, "<script>") {
		t.Error("what a server said is not escaped")
	}
	names := regexp.MustCompile(`https?://[^"'\s<>]+`)
	for _, url := range names.FindAllString(page, -1) {
		if !strings.HasPrefix(url, "http://www.w3.org/") { // the names of SVG's own language
			t.Errorf("the page points to %s", url)
		}
	}
	if regexp.MustCompile(`(src|href)="[^#]`).MatchString(strings.ReplaceAll(page, "xlink:href", "")) {
		t.Error("the page loads something")
	}
}

func TestMarkdownTable(t *testing.T) {
	var b bytes.Buffer
	must(t, Markdown(&b, Build(sample())))
	if !strings.Contains(b.String(), `a \| b`) {
		t.Error("a bar in a cell is not escaped")
	}
	columns := 0
	for line := range strings.Lines(b.String()) {
		if !strings.HasPrefix(line, "|") {
			columns = 0
			continue
		}
		n := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|")
		if columns != 0 && n != columns {
			t.Errorf("%d bars instead of %d: %s", n, columns, line)
		}
		columns = n
	}
}

func TestJSON(t *testing.T) {
	var b bytes.Buffer
	must(t, JSON(&b, sample()))
	var d struct {
		Figures []struct {
			Contender, Metric string
			Median            any
		}
		Asked []Answer
	}
	must(t, json.Unmarshal(b.Bytes(), &d))
	if len(d.Figures) == 0 || d.Figures[0].Median != 8500. {
		t.Errorf("%+v", d.Figures)
	}
	if len(d.Asked) == 0 || len(d.Asked) >= len(demands()) { // there is neither memory nor ZooKeeper
		t.Errorf("%d of %d figures asked", len(d.Asked), len(demands()))
	}
}

func TestAnswers(t *testing.T) {
	got := map[string]Answer{}
	for _, a := range Answers(sample()) {
		got[a.Backend+": "+a.Asked] = a
	}
	for what, want := range map[string]string{
		"redis: alone: 2 requests":                             "yes",
		"redis: alone: at least 0.85 of redislock's rate":      "NO",
		"redis: 16 clients: at least 0.75 of redislock's rate": "yes",
		"etcd: alone: 2 requests":                              "not measured",
		"etcd: alone: at least 0.95 of concurrency.Mutex":      "not measured",
	} {
		if got[what].Met != want {
			t.Errorf("%s: %+v, want %s", what, got[what], want)
		}
	}
	for what, want := range map[string]string{
		"etcd: alone: 2 requests":                    "", // it is the plan to measure it
		"etcd: 10,000 names used once: nothing left": `make compare ARGS="-full -backends etcd -experiments scale"`,
		"redis: alone: 2 requests":                   "",
	} {
		if got[what].Run != want {
			t.Errorf("%s: run %q, want %q", what, got[what].Run, want)
		}
	}
	if _, ok := got["zookeeper: 16 clients: at most 5 requests"]; ok {
		t.Error("something is asked of a backend that was not chosen")
	}
}

// A report can be made again from the JSON file, and says the same.
func TestReportFromJSON(t *testing.T) {
	in := sample()
	in.Plan.Contenders = in.Plan.Contenders[:3]
	in.Outcome.Parts = []experiment.Part{{Name: "alone", Seconds: 1}, {Name: "contended", Seconds: 2}, {Name: "fairness", Seconds: 3}}
	in.Plan.Experiments = slices.DeleteFunc(experiment.All(), func(e experiment.Experiment) bool {
		return !slices.Contains([]string{"alone", "contended", "fairness"}, e.Name)
	})
	in.Outcome.Took = 6 * time.Second
	in.Outcome.Results.Add(of("alone", "", "redis", "requests"), math.NaN())
	known := in.Plan.Contenders
	var file bytes.Buffer
	must(t, JSON(&file, in))
	again, err := Read(&file, func(name string) (contender.Contender, error) {
		i := slices.IndexFunc(known, func(c contender.Contender) bool { return c.Name == name })
		if i < 0 {
			return contender.Contender{}, errors.New("unknown")
		}
		return known[i], nil
	})
	must(t, err)
	var was, is bytes.Buffer
	must(t, HTML(&was, Build(in)), HTML(&is, Build(again)))
	if was.String() != is.String() {
		t.Errorf("was\n%s\nis\n%s", was.String(), is.String())
	}
}

// Every figure that is asked, and every line of "Which one?", names an experiment, a case and
// a metric that exist: a name that was changed on one side only would never be measured. When all of them have been
// measured that can be, each line has something to say.
func TestFiguresExist(t *testing.T) {
	exists := map[measure.Key]bool{}
	all := &measure.Results{}
	for _, e := range experiment.All() {
		for _, depth := range []experiment.Depth{experiment.Short, experiment.Full} {
			for _, k := range e.Cases(depth) {
				for _, m := range e.Metrics {
					exists[of(e.Name, k.Name, "", m.Name)] = true
					for _, c := range ours.All() {
						if e.Fits(depth, c, k) {
							all.Add(of(e.Name, k.Name, c.Name, m.Name), 1)
						}
					}
				}
			}
		}
	}
	check := func(k measure.Key) {
		t.Helper()
		k.Contender = ""
		if k.Metric != "" && !exists[k] {
			t.Errorf("there is no %+v", k)
		}
	}
	for _, d := range demands() {
		check(d.key())
		check(d.other())
	}
	for _, c := range shortColumns {
		check(of(c.experiment, c.kase, "", c.metric))
	}
	for i, a := range advices {
		if a(chooser{r: checked{all, check}, ours: ours.All()}) == nil {
			t.Errorf("line %d of \"Which one?\" is left out though everything was measured", i+1)
		}
	}
}

// checked has check called with all that is looked up.
type checked struct {
	*measure.Results
	check func(measure.Key)
}

func (c checked) Median(k measure.Key) float64 {
	c.check(k)
	return c.Results.Median(k)
}

func (c checked) Values(k measure.Key) []float64 {
	c.check(k)
	return c.Results.Values(k)
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 1234567.2: "1,234,567", 999.4: "999", 1000: "1,000", 45.67: "45.7", 3.14159: "3.14", 2: "2",
		.0114: "0.01", .00116: "0.00116", -5: "-5", math.Inf(1): "∞",
	} {
		if got := number(v); got != want {
			t.Errorf("number(%v) = %q, want %q", v, got, want)
		}
	}
	if got := number(math.NaN()); got != "–" {
		t.Errorf("NaN is %q", got)
	}
	for _, c := range []struct {
		median, least, greatest float64
		want                    string
	}{
		{100, 90, 110, " ±10%"},
		{100, 100, 100, ""},
		{1, 0, 50, " (0–50)"},
		{0, 0, 3, " (0–3)"},
		{1, 1, math.Inf(1), ""},
	} {
		if got := spread(c.median, c.least, c.greatest); got != c.want {
			t.Errorf("spread(%v) = %q, want %q", c, got, c.want)
		}
	}
}

func TestPage(t *testing.T) {
	in := sample()
	var b bytes.Buffer
	plots, err := Page(&b, in)
	must(t, err)
	p := plots[0]
	if len(plots) != 1 || p.Name != "rates" || strings.Contains(b.String(), "cost") {
		t.Errorf("nothing was measured over a network, yet: %s", b.String())
	}
	if !strings.Contains(b.String(), "| **redis** | 8,500 | 0.11 | 11,000 | 5 |") {
		t.Errorf("%s", b.String())
	}
	if !bytes.Contains(p.SVG, []byte("<svg")) || !strings.Contains(b.String(), "](rates.svg)") {
		t.Errorf("no plot: %s", b.String())
	}
	if bytes.Contains(p.SVG, []byte("Liberation")) {
		t.Error("the plot names a font that a reader may not have")
	}
	at := map[string]string{}
	for _, m := range regexp.MustCompile(`<text x="([^"]*)" y="([^"]*)"[^>]*>([^<]*)</text>`).FindAllStringSubmatch(string(p.SVG), -1) {
		at[strings.TrimSpace(m[3])] = m[1] + " " + m[2]
	}
	if at["redis"] == "" || at["redislock"] == "" || at["redis"] == at["redislock"] {
		t.Errorf("redis stands at %q, redislock at %q", at["redis"], at["redislock"])
	}
	if at["etcd-1"] != "" {
		t.Error("etcd-1, of which there are no such figures, is in the plot")
	}
}

// What a lock costs over a network stands at the head of the page, if it was measured.
func TestCosts(t *testing.T) {
	in := sample()
	for kase, rate := range map[string]float64{"alone, 0.2 ms": 2000, "alone, 1 ms": 400, "alone, 5 ms": 80, "16 clients, 1 ms": 500} {
		in.Outcome.Results.Add(of("delay", kase, "redis", "rate"), rate)
	}
	in.Outcome.Results.Add(of("delay", "alone, 1 ms", "redislock", "rate"), 320)
	var b bytes.Buffer
	plots, err := Page(&b, in)
	must(t, err)
	for _, want := range []string{"| **redis** | 0.5 | 2.5 | 12.5 |  | 2 |  |", "| redislock |  | 3.12 |", "](cost.svg)"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in %s", want, b.String())
		}
	}
	if strings.Index(b.String(), "cost.svg") > strings.Index(b.String(), "alone, pairs/s") {
		t.Error("the costs come after the rates")
	}
	svg := string(plots[1].SVG)
	if n := strings.Count(svg, ">redis<"); n != 1 || !strings.Contains(svg, "200") || strings.Contains(svg, "etcd-1") {
		t.Errorf("redis %d times in %s", n, svg)
	}
}

package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/measure"
)

// demand is one figure that this project asks of its backends.
type demand struct {
	of                       string // contenders
	what                     string
	experiment, kase, metric string
	is                       string // at least (≥) or at most (≤) the limit
	limit                    float64
	unit                     string
	// than, if not empty, makes it a ratio of paired repetitions: to the same figure of this contender, or of "case ...".
	than string
}

// asked are the demands. Where the wish is "under" a limit, equality is not told apart from it. Pings come when they like:
// "nothing but" allows for those at the edges of the window.
var asked = []demand{
	{"memory", "acquire+release under 1.5 µs", "alone", "", pairP50, "≤", .0015, "ms", ""},
	{"memory", "hand-over, 16 goroutines of one Locker: at least 200,000 locks/s", "hand-over", sixteenOne, "rate", "≥", 200_000, "/s", ""},
	{"memory", "100,000 locks held: under 1 KiB of heap each", "scale", hundredK, "heap", "≤", 1024, "bytes", ""},
	{"memory", "100,000 locks held: no goroutine each", "scale", hundredK, "goroutines", "≤", .001, "", ""},
	{"memory", "100,000 locks held: under 2 % of a core", "scale", hundredK, "CPU", "≤", 20, "ms/s", ""},
	{"memory", "100,000 locks held: none lost", "scale", hundredK, "lost", "≤", 0, "lost", ""},
	{"memory", "100,000 locks held WithLease: under 1 KiB of heap each", "scale", hundredKLeased, "heap", "≤", 1024, "bytes", ""},
	{"memory", "100,000 locks held WithLease: no goroutine each", "scale", hundredKLeased, "goroutines", "≤", .001, "", ""},
	{"memory", "100,000 locks held WithLease: under 2 % of a core", "scale", hundredKLeased, "CPU", "≤", 20, "ms/s", ""},
	{"memory", "100,000 locks held WithLease: none lost", "scale", hundredKLeased, "lost", "≤", 0, "lost", ""},

	{"redis", "alone: 2 requests", "alone", "", "requests", "≤", 2, "", ""},
	{"redis", "alone: at least 0.85 of redislock's rate", "alone", "", "rate", "≥", .85, "/s", "redislock"},
	{"redis", "16 clients: at most 3 requests", "contended", sixteen, "requests", "≤", 3, "", ""},
	{"redis", "16 clients: at least 0.75 of redislock's rate", "contended", sixteen, "rate", "≥", .75, "/s", "redislock"},
	{"redis", "16 clients: p99 at most a fifth of redislock's", "contended", sixteen, "acquire p99", "≤", .2, "ms", "redislock"},
	{"redis", "16 clients, 1 ms of network: at least 1.4 of redislock's rate", "contended", "16 clients, 1 ms of network", "rate", "≥", 1.4, "/s", "redislock"},
	{"redlock-5", "alone, with fencing: at least redsync's rate", "alone", "", "rate", "≥", 1, "/s", "redsync-5"},
	{"redlock-5", "16 clients, with fencing: at least redsync's rate", "contended", sixteen, "rate", "≥", 1, "/s", "redsync-5"},
	{"redlock-5", "16 clients: p99 at most a fifth of redsync's", "contended", sixteen, "acquire p99", "≤", .2, "ms", "redsync-5"},
	{"zookeeper-1", "alone: 2 requests", "alone", "", "requests", "≤", 2.05, "", ""},
	{"zookeeper-1", "alone: at least zk.Lock's rate", "alone", "", "rate", "≥", 1, "/s", "zk.Lock-1"},
	{"zookeeper-1", "16 clients: at most 5 requests", "contended", sixteen, "requests", "≤", 5, "", ""},
	{"zookeeper-1", "16 clients: at least zk.Lock's rate", "contended", sixteen, "rate", "≥", 1, "/s", "zk.Lock-1"},
	{"etcd-1", "alone: 2 requests", "alone", "", "requests", "≤", 2, "", ""},
	{"etcd-1", "alone: at least 0.95 of concurrency.Mutex", "alone", "", "rate", "≥", .95, "/s", "etcd.Mutex-1"},
	{"etcd-1", "16 clients: at most 5 requests", "contended", sixteen, "requests", "≤", 5, "", ""},
	{"etcd-1", "16 clients: at least 3 times concurrency.Mutex", "contended", sixteen, "rate", "≥", 3, "/s", "etcd.Mutex-1"},

	{everyOne, "hand-over, 16 goroutines of one Locker: at least 100,000 locks/s", "hand-over", sixteenOne, "rate", "≥", 100_000, "/s", ""},
	{everyOne, "hand-over, 16 processes: at least 50,000 locks/s together", "hand-over", processes, "rate", "≥", 50_000, "/s", ""},
	{everyOne, "hand-over, 16 processes: largest share at most 1.5 of the smallest", "hand-over", processes, "largest/smallest", "≤", 1.5, "", ""},
	{everyOne, "64 readers of one name: at least the rate of 64 names", "readers", readersOne, "rate", "≥", 1, "/s", "case 64 names"},
	{everyOne, "a writer among 64 readers: p99 under 10 hand-overs", "readers", "a writer among 64 readers", "in hand-overs", "≤", 10, "", ""},
	{withPermits, "100 clients for 10 permits: never 11", "permits", permitOfTen, "too many", "≤", 0, "", ""},
	{withPermits, "100 clients for 10 permits: less than one of the ten idle", "permits", permitOfTen, "idle", "≤", 10, "%", ""},
	{withPermits, "100 clients for 10 permits: at most 1.5 of the requests of exclusive locks", "permits", permitOfTen, "requests", "≤", 1.5, "", "case exclusive"},

	{"redis", "100 idle waiters: under 0.1 requests/s each", "waiting", hundred, "requests per waiter", "≤", .1, "/s", ""},
	{"redis", "100 idle readers behind a writer: under 0.1 requests/s each", "waiting", hundredReaders, "requests per waiter", "≤", .1, "/s", ""},
	{"redis", "100 idle clients for 1 of 10 permits: under 0.1 requests/s each", "waiting", hundredPermits, "requests per waiter", "≤", .1, "/s", ""},
	{"redlock-5", "100 idle waiters: under 1 request/s each", "waiting", hundred, "requests per waiter", "≤", 1, "/s", ""},
	{"redlock-5", "100 idle readers behind a writer: under 1 request/s each", "waiting", hundredReaders, "requests per waiter", "≤", 1, "/s", ""},
	{"zookeeper-1", "100 idle waiters: nothing but session pings", "waiting", hundred, "beyond keep-alives", "≤", .05, "/s each", ""},
	{"zookeeper-1", "100 idle readers behind a writer: nothing but session pings", "waiting", hundredReaders, "beyond keep-alives", "≤", .05, "/s each", ""},
	{"zookeeper-1", "100 idle clients for 1 of 10 permits: nothing but session pings", "waiting", hundredPermits, "beyond keep-alives", "≤", .05, "/s each", ""},
	{"zookeeper-1", "100 goroutines of one Locker wait: nothing but its session's pings", "waiting", "100 goroutines of one client", "beyond keep-alives", "≤", .05, "/s each", ""},
	{"etcd-1", "100 idle waiters: nothing but lease keep-alives", "waiting", hundred, "beyond keep-alives", "≤", .02, "/s each", ""},
	{"etcd-1", "100 idle readers behind a writer: nothing but lease keep-alives", "waiting", hundredReaders, "beyond keep-alives", "≤", .02, "/s each", ""},
	{"etcd-1", "100 idle clients for 1 of 10 permits: nothing but lease keep-alives", "waiting", hundredPermits, "beyond keep-alives", "≤", .02, "/s each", ""},
	{"redis", "100 waiters: at most 2.5 requests each until all had their turn", "waiting", hundred, "drain", "≤", 2.5, "", ""},
	{"zookeeper-1", "100 waiters: at most 2.1 requests each until all had their turn", "waiting", hundred, "drain", "≤", 2.1, "", ""},
	{"etcd-1", "100 waiters: at most 3 requests each until all had their turn", "waiting", hundred, "drain", "≤", 3, "", ""},
	{"zookeeper-1", "10,000 names used once: nothing left when containers were reaped", "scale", tenKOnce, "left later", "≤", .001, "each", ""},
	{"etcd-1", "10,000 names used once: nothing left", "scale", tenKOnce, "left behind", "≤", .001, "each", ""},
}

const (
	everyOne    = "redis redlock-5 zookeeper-1 etcd-1"
	databases   = "postgres mysql"
	withPermits = "redis zookeeper-1 etcd-1 " + databases

	sixteen        = "16 clients"
	sixteenOne     = "16 goroutines of one client"
	processes      = "16 processes of 16 goroutines"
	hundred        = "100 clients"
	twentyFour     = "24 clients"
	hundredReaders = "100 readers behind a writer"
	hundredPermits = "100 clients for 1 of 10 permits"
	readersOne     = "64 readers of one name"
	permitOfTen    = "1 of 10 permits"
	hundredK       = "100000 names held at once"
	hundredKLeased = "100000 names held at once and not renewed"
	tenKOnce       = "10000 names used once each"
	pairP50        = "acquire+release p50"
	pairP99        = "acquire+release p99"
)

// demands are those of each backend, one backend after the other.
func demands() (list []demand) {
	for _, name := range strings.Fields("memory " + everyOne + " " + databases) {
		for _, d := range asked {
			if slices.Contains(strings.Fields(d.of), name) {
				d.of = name
				list = append(list, d)
			}
		}
	}
	return list
}

// key names the figure.
func (d demand) key() measure.Key { return of(d.experiment, d.kase, d.of, d.metric) }

// other names what it is compared with, nothing if it is no ratio.
func (d demand) other() (k measure.Key) {
	if d.than == "" {
		return k
	}
	k = d.key()
	if kase, is := strings.CutPrefix(d.than, "case "); is {
		k.Case = kase
	} else {
		k.Contender = d.than
	}
	return k
}

// Answer is what came of it.
type Answer struct {
	Backend  string `json:"backend"`
	Asked    string `json:"asked"`
	Measured string `json:"measured"`
	Rival    string `json:"rival,omitempty"` // what the other side of a ratio came to
	Ratio    string `json:"ratio,omitempty"`
	Met      string `json:"met"`           // "yes", "NO", notMeasured
	Run      string `json:"run,omitempty"` // the command that measures what was not
}

const notMeasured = "not measured"

func (d demand) answer(r *measure.Results) Answer {
	backend, _, _ := strings.Cut(d.of, "-")
	out := Answer{Backend: backend, Asked: d.what, Met: notMeasured}
	values := r.Values(d.key())
	if len(values) == 0 {
		return out
	}
	got := measure.Median(values)
	out.Measured = with(number(got), d.unit)
	if d.than != "" {
		other := r.Values(d.other())
		if len(other) == 0 {
			return out
		}
		out.Rival = d.other().Contender + " " + with(number(measure.Median(other)), d.unit)
		got = measure.Ratio(values, other)
		out.Ratio = number(got)
	}
	out.Met = "NO"
	if d.is == "≥" && got >= d.limit || d.is == "≤" && got <= d.limit {
		out.Met = "yes"
	} else if out.Ratio == number(d.limit) { // not met by so little that it would read as if
		out.Ratio = fmt.Sprintf("%.4f", got)
	}
	if math.IsNaN(got) {
		out.Met = notMeasured
	}
	return out
}

func with(s, unit string) string {
	if unit == "" {
		return s
	}
	if unit == "/s" {
		return s + unit
	}
	return s + " " + unit
}

func of(experiment, kase, contender, metric string) measure.Key {
	return measure.Key{Experiment: experiment, Case: kase, Contender: contender, Metric: metric}
}

// Answers compares what is asked of the backends that were chosen with what was measured.
func Answers(in Input) []Answer {
	var all []Answer
	for _, d := range demands() {
		if !slices.ContainsFunc(in.Plan.Contenders, func(c contender.Contender) bool { return c.Name == d.of }) {
			continue
		}
		answer := d.answer(in.Outcome.Results)
		if answer.Met == notMeasured && !(in.planned(d.key()) && (d.than == "" || in.planned(d.other()))) {
			answer.Run = fmt.Sprintf(`make compare ARGS="-full -backends %s -experiments %s"`, answer.Backend, d.experiment)
		}
		all = append(all, answer)
	}
	return all
}

// planned reports whether this form measures a figure.
func (in Input) planned(k measure.Key) bool {
	for _, e := range in.Plan.Experiments {
		for _, kase := range e.Cases(in.Plan.Depth) {
			for _, c := range in.Plan.Contenders {
				if e.Name == k.Experiment && kase.Name == k.Case && c.Name == k.Contender && e.Fits(in.Plan.Depth, c, kase) {
					return true
				}
			}
		}
	}
	return false
}

// askedSection is the list at the end of the report.
func askedSection(in Input) (Section, bool) {
	t := Table{Head: []string{"backend", "asked", "measured", "compared with", "ratio", "met"}, Left: true}
	s := Section{Title: "What is asked of this project's backends"}
	missing, failed, met := 0, 0, 0
	by := map[string][]string{} // what the commands measure that was not
	for _, a := range Answers(in) {
		switch {
		case a.Met == "yes":
			met++
		case a.Met == notMeasured && a.Run != "":
			missing++
			by[a.Run] = append(by[a.Run], a.Asked)
		case a.Met == notMeasured:
			missing++
			failed++
		}
		t.Rows = append(t.Rows, []string{a.Backend, a.Asked, a.Measured, a.Rival, a.Ratio, a.Met})
	}
	for _, run := range slices.Sorted(maps.Keys(by)) {
		s.List = append(s.List, fmt.Sprintf("not measured in this form, run `%s`: %s", run, strings.Join(by[run], "; ")))
	}
	s.Tables = []Table{t}
	s.Text = []string{fmt.Sprintf("%d of %d met, %d not measured.", met, len(t.Rows), missing)}
	if failed > 0 {
		s.Text[0] += fmt.Sprintf(" Why %d of these were not is said above, where it says what was left out.", failed)
	}
	if in.Machine.Busy() {
		s.Text[0] += " The machine had other work: what is not met may be so for that."
	}
	return s, missing < len(t.Rows)
}

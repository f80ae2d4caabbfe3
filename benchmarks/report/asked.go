package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/measure"
)

// asked is one figure that this project demands of itself.
type asked struct {
	backend string
	what    string
	of      measure.Key
	// than, if it has a metric, makes the figure a ratio of paired repetitions.
	than measure.Key
	// The figure, or ratio, is to be at least or at most the limit.
	atLeast bool
	limit   float64
	unit    string
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

func (a asked) answer(r *measure.Results) Answer {
	out := Answer{Backend: a.backend, Asked: a.what, Met: notMeasured}
	values := r.Values(a.of)
	if len(values) == 0 {
		return out
	}
	got := measure.Median(values)
	out.Measured = with(number(got), a.unit)
	if a.than.Metric != "" {
		other := r.Values(a.than)
		if len(other) == 0 {
			return out
		}
		out.Rival = a.than.Contender + " " + with(number(measure.Median(other)), a.unit)
		got = measure.Ratio(values, other)
		out.Ratio = number(got)
	}
	out.Met = "NO"
	if a.atLeast && got >= a.limit || !a.atLeast && got <= a.limit {
		out.Met = "yes"
	} else if out.Ratio == number(a.limit) { // not met by so little that it would read as if
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

const (
	sixteen    = "16 clients"
	sixteenOne = "16 goroutines of one client"
	hundred    = "100 clients"
	twentyFour = "24 clients"
	hundredOne = "100 goroutines of one client"
	tenK       = "10000 names held at once"
	pairP50    = "acquire+release p50"
	pairP99    = "acquire+release p99"
)

func of(experiment, kase, contender, metric string) measure.Key {
	return measure.Key{Experiment: experiment, Case: kase, Contender: contender, Metric: metric}
}

// ratio asks for a ratio to the same figure of another contender.
func ratio(backend, what string, k measure.Key, other string, atLeast bool, limit float64, unit string) asked {
	than := k
	than.Contender = other
	return asked{backend, what, k, than, atLeast, limit, unit}
}

func most(backend, what string, k measure.Key, limit float64, unit string) asked {
	return asked{backend: backend, what: what, of: k, limit: limit, unit: unit}
}

// goroutines asks that the goroutines of one client be no slower than separate clients.
func goroutines(backend, contender string) asked {
	return asked{backend, "16 goroutines of one Locker: at least the rate of 16 clients",
		of("contended", sixteenOne, contender, "rate"), of("contended", sixteen, contender, "rate"), true, 1, "/s"}
}

// demands is the list, in the order of the report. Where the wish is "under" a limit,
// equality is not told apart from it.
func demands() []asked {
	list := []asked{
		most("memory", "acquire+release under 2 µs", of("alone", "", "memory", pairP50), .002, "ms"),
		most("memory", "10,000 locks held: under 2 KiB of heap each", of("scale", tenK, "memory", "heap"), 2048, "bytes"),
		most("memory", "10,000 locks held: no goroutine each", of("scale", tenK, "memory", "goroutines"), .001, ""),
		most("memory", "10,000 locks held: all renewed in time", of("scale", tenK, "memory", "lost"), 0, "lost"),
	}
	list = append(list, redisDemands()...)
	list = append(list, redlockDemands()...)
	list = append(list, zooKeeperDemands()...)
	return append(list, etcdDemands()...)
}

func redisDemands() []asked {
	const b = "redis"
	return []asked{
		most(b, "alone: 2 requests", of("alone", "", b, "requests"), 2, ""),
		ratio(b, "alone: at least 0.95 of redislock's rate", of("alone", "", b, "rate"), "redislock", true, .95, "/s"),
		ratio(b, "16 clients: at least redislock's rate", of("contended", sixteen, b, "rate"), "redislock", true, 1, "/s"),
		most(b, "16 clients: largest share at most 1.2 of the smallest", of("contended", sixteen, b, "largest/smallest"), 1.2, ""),
		most(b, "16 clients: p99 under 5 ms", of("contended", sixteen, b, "acquire p99"), 5, "ms"),
		goroutines(b, b),
		most(b, "100 idle waiters: under 0.1 requests/s each", of("waiting", hundred, b, "requests per waiter"), .1, "/s"),
		most(b, "100 waiters: at most 2.5 requests each until all had their turn", of("waiting", hundred, b, "drain"), 2.5, ""),
	}
}

func redlockDemands() []asked {
	const b, five, rival = "redlock", "redlock-5", "redsync-5"
	hole := func(what string, metric string) asked {
		return asked{b, what, of("alone", "", "redlock-5-blackhole", metric), of("alone", "", five, metric), false, 1.5, "ms"}
	}
	return []asked{
		ratio(b, "alone, WithoutFencing: at least 1.15 of redsync's rate", of("alone", "", "redlock-5-unfenced", "rate"), rival, true, 1.15, "/s"),
		ratio(b, "alone, with fencing: at least 0.75 of redsync's rate", of("alone", "", five, "rate"), rival, true, .75, "/s"),
		ratio(b, "16 clients: at least redsync's rate", of("contended", sixteen, five, "rate"), rival, true, 1, "/s"),
		most(b, "16 clients: p99 under 60 ms", of("contended", sixteen, five, "acquire p99"), 60, "ms"),
		most(b, "16 clients: largest share at most 3 times the smallest", of("contended", sixteen, five, "largest/smallest"), 3, ""),
		most(b, "100 idle waiters: under 1 request/s each", of("waiting", hundred, five, "requests per waiter"), 1, "/s"),
		hole("one node of five black-holed: p50 at most 1.5 of healthy", pairP50),
		hole("one node of five black-holed: p99 at most 1.5 of healthy", pairP99),
	}
}

// Pings come when they like: "nothing but" allows for those at the edges of the window.
func zooKeeperDemands() []asked {
	const b, one, unsynced = "zookeeper", "zookeeper-1", "zookeeper-1-nosync"
	return []asked{
		ratio(b, "alone: at least 1.04 of zk.Lock's rate", of("alone", "", one, "rate"), "zk.Lock-1", true, 1.04, "/s"),
		ratio(b, "alone: p50 at most 1.08 of create + delete", of("alone", "", one, pairP50), "floor-zookeeper-1", false, 1.08, "ms"),
		ratio(b, "alone, forceSync=no: at least 1.2 of zk.Lock's rate", of("alone", "", unsynced, "rate"), "zk.Lock-1-nosync", true, 1.2, "/s"),
		most(b, "16 clients: at most 4.1 requests", of("contended", sixteen, one, "requests"), 4.1, ""),
		ratio(b, "16 clients: at least zk.Lock's rate", of("contended", sixteen, one, "rate"), "zk.Lock-1", true, 1, "/s"),
		ratio(b, "16 clients, forceSync=no: at least 1.1 of zk.Lock's rate", of("contended", sixteen, unsynced, "rate"), "zk.Lock-1-nosync", true, 1.1, "/s"),
		goroutines(b, one),
		most(b, "100 idle waiters: nothing but session pings", of("waiting", hundred, one, "beyond keep-alives"), .05, "/s each"),
		most(b, "100 goroutines of one Locker wait: nothing but its session's pings", of("waiting", hundredOne, one, "beyond keep-alives"), .05, "/s each"),
		most(b, "100 waiters: at most 2.1 requests each until all had their turn", of("waiting", hundred, one, "drain"), 2.1, ""),
		most(b, "10,000 names used once: nothing left when containers were reaped", of("scale", "10000 names used once each", one, "left later"), .001, "each"),
	}
}

func etcdDemands() []asked {
	const b, one, rival = "etcd", "etcd-1", "etcd.Mutex-1"
	return []asked{
		most(b, "alone: 2 requests", of("alone", "", one, "requests"), 2, ""),
		ratio(b, "alone: at least the rate of concurrency.Mutex", of("alone", "", one, "rate"), rival, true, 1, "/s"),
		ratio(b, "alone: p50 at most 1.12 of put + delete", of("alone", "", one, pairP50), "floor-etcd-1", false, 1.12, "ms"),
		ratio(b, "16 clients: at least 5 times concurrency.Mutex", of("contended", sixteen, one, "rate"), rival, true, 5, "/s"),
		most(b, "16 clients: at most 4.1 requests", of("contended", sixteen, one, "requests"), 4.1, ""),
		most(b, "16 clients: largest share at most 1.2 of the smallest", of("contended", sixteen, one, "largest/smallest"), 1.2, ""),
		goroutines(b, one),
		most(b, "16 goroutines of one Locker: never two inside", of("contended", sixteenOne, one, "two inside"), 0, ""),
		most(b, "100 idle waiters: nothing but lease keep-alives", of("waiting", hundred, one, "beyond keep-alives"), .02, "/s each"),
		most(b, "100 waiters: at most 3 requests each until all had their turn", of("waiting", hundred, one, "drain"), 3, ""),
		most(b, "10,000 names used once: nothing left", of("scale", "10000 names used once each", one, "left behind"), .001, "each"),
	}
}

// Answers compares what is asked of the backends that were chosen with what was measured.
func Answers(in Input) []Answer {
	var all []Answer
	for _, a := range demands() {
		if !in.chosen(a.of.Contender) {
			continue
		}
		answer := a.answer(in.Outcome.Results)
		if answer.Met == notMeasured {
			answer.Run = in.how(a)
		}
		all = append(all, answer)
	}
	return all
}

// chosen reports whether a contender was to be compared.
func (in Input) chosen(name string) bool {
	return slices.ContainsFunc(in.Plan.Contenders, func(c contender.Contender) bool { return c.Name == name })
}

// how says by what command a figure that is missing can be had; "" if it should have
// been measured, but was not.
func (in Input) how(a asked) string {
	if in.planned(a.of) && (a.than.Metric == "" || in.planned(a.than)) {
		return ""
	}
	return fmt.Sprintf(`make compare ARGS="-full -backends %s -experiments %s"`, a.backend, a.of.Experiment)
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
	var runs []string // the commands that measure what was not
	by := map[string][]string{}
	for _, a := range Answers(in) {
		switch a.Met {
		case notMeasured:
			missing++
			if a.Run == "" {
				failed++
				break
			}
			if len(by[a.Run]) == 0 {
				runs = append(runs, a.Run)
			}
			by[a.Run] = append(by[a.Run], a.Asked)
		case "yes":
			met++
		}
		t.Rows = append(t.Rows, []string{a.Backend, a.Asked, a.Measured, a.Rival, a.Ratio, a.Met})
	}
	for _, run := range runs {
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

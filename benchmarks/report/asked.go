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
	sixteen        = "16 clients"
	sixteenFar     = "16 clients, 1 ms of network"
	sixteenOne     = "16 goroutines of one client"
	processes      = "16 processes of 16 goroutines"
	hundred        = "100 clients"
	twentyFour     = "24 clients"
	hundredOne     = "100 goroutines of one client"
	hundredReaders = "100 readers behind a writer"
	hundredPermits = "100 clients for 1 of 10 permits"
	readersOne     = "64 readers of one name"
	readersMany    = "64 names"
	writerAmong    = "a writer among 64 readers"
	permitOfTen    = "1 of 10 permits"
	hundredK       = "100000 names held at once"
	hundredKLeased = "100000 names held at once and not renewed"
	tenKOnce       = "10000 names used once each"
	pairP50        = "acquire+release p50"
	pairP99        = "acquire+release p99"
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

func atLeast(backend, what string, k measure.Key, limit float64, unit string) asked {
	return asked{backend: backend, what: what, of: k, atLeast: true, limit: limit, unit: unit}
}

// demands is the list, in the order of the report. Where the wish is "under" a limit,
// equality is not told apart from it.
func demands() []asked {
	list := memoryDemands()
	list = append(list, redisDemands()...)
	list = append(list, redlockDemands()...)
	list = append(list, zooKeeperDemands()...)
	return append(list, etcdDemands()...)
}

func memoryDemands() []asked {
	const b = "memory"
	list := []asked{
		most(b, "acquire+release under 1.5 µs", of("alone", "", b, pairP50), .0015, "ms"),
		atLeast(b, "hand-over, 16 goroutines of one Locker: at least 200,000 locks/s", of("hand-over", sixteenOne, b, "rate"), 200_000, "/s"),
	}
	for _, kase := range []string{hundredK, hundredKLeased} {
		held := "100,000 locks held: "
		if kase == hundredKLeased {
			held = "100,000 locks held WithLease: "
		}
		list = append(list,
			most(b, held+"under 1 KiB of heap each", of("scale", kase, b, "heap"), 1024, "bytes"),
			most(b, held+"no goroutine each", of("scale", kase, b, "goroutines"), .001, ""),
			most(b, held+"under 2 % of a core", of("scale", kase, b, "CPU"), 20, "ms/s"),
			most(b, held+"none lost", of("scale", kase, b, "lost"), 0, "lost"))
	}
	return list
}

func redisDemands() []asked {
	const b, rival = "redis", "redislock"
	return slices.Concat(
		[]asked{
			most(b, "alone: 2 requests", of("alone", "", b, "requests"), 2, ""),
			ratio(b, "alone: at least 0.85 of redislock's rate", of("alone", "", b, "rate"), rival, true, .85, "/s"),
			most(b, "16 clients: at most 3 requests", of("contended", sixteen, b, "requests"), 3, ""),
			ratio(b, "16 clients: at least 0.75 of redislock's rate", of("contended", sixteen, b, "rate"), rival, true, .75, "/s"),
			ratio(b, "16 clients: p99 at most a fifth of redislock's", of("contended", sixteen, b, "acquire p99"), rival, false, .2, "ms"),
			ratio(b, "16 clients, 1 ms of network: at least 1.4 of redislock's rate", of("contended", sixteenFar, b, "rate"), rival, true, 1.4, "/s"),
		},
		kinds(b, b, true),
		idle(b, b, true, "requests per waiter", "under 0.1 requests/s each", .1, "/s"),
		[]asked{
			most(b, "100 waiters: at most 2.5 requests each until all had their turn", of("waiting", hundred, b, "drain"), 2.5, ""),
		})
}

func redlockDemands() []asked {
	const b, five, rival = "redlock", "redlock-5", "redsync-5"
	return slices.Concat(
		[]asked{
			ratio(b, "alone, with fencing: at least redsync's rate", of("alone", "", five, "rate"), rival, true, 1, "/s"),
			ratio(b, "16 clients, with fencing: at least redsync's rate", of("contended", sixteen, five, "rate"), rival, true, 1, "/s"),
			ratio(b, "16 clients: p99 at most a fifth of redsync's", of("contended", sixteen, five, "acquire p99"), rival, false, .2, "ms"),
		},
		kinds(b, five, false),
		idle(b, five, false, "requests per waiter", "under 1 request/s each", 1, "/s"),
	)
}

// Pings come when they like: "nothing but" allows for those at the edges of the window.
func zooKeeperDemands() []asked {
	const b, one, rival = "zookeeper", "zookeeper-1", "zk.Lock-1"
	return slices.Concat(
		[]asked{
			most(b, "alone: 2 requests", of("alone", "", one, "requests"), 2.05, ""),
			ratio(b, "alone: at least zk.Lock's rate", of("alone", "", one, "rate"), rival, true, 1, "/s"),
			most(b, "16 clients: at most 5 requests", of("contended", sixteen, one, "requests"), 5, ""),
			ratio(b, "16 clients: at least zk.Lock's rate", of("contended", sixteen, one, "rate"), rival, true, 1, "/s"),
		},
		kinds(b, one, true),
		idle(b, one, true, "beyond keep-alives", "nothing but session pings", .05, "/s each"),
		[]asked{
			most(b, "100 goroutines of one Locker wait: nothing but its session's pings", of("waiting", hundredOne, one, "beyond keep-alives"), .05, "/s each"),
			most(b, "100 waiters: at most 2.1 requests each until all had their turn", of("waiting", hundred, one, "drain"), 2.1, ""),
			most(b, "10,000 names used once: nothing left when containers were reaped", of("scale", tenKOnce, one, "left later"), .001, "each"),
		})
}

func etcdDemands() []asked {
	const b, one, rival = "etcd", "etcd-1", "etcd.Mutex-1"
	return slices.Concat(
		[]asked{
			most(b, "alone: 2 requests", of("alone", "", one, "requests"), 2, ""),
			ratio(b, "alone: at least 0.95 of concurrency.Mutex", of("alone", "", one, "rate"), rival, true, .95, "/s"),
			most(b, "16 clients: at most 5 requests", of("contended", sixteen, one, "requests"), 5, ""),
			ratio(b, "16 clients: at least 3 times concurrency.Mutex", of("contended", sixteen, one, "rate"), rival, true, 3, "/s"),
		},
		kinds(b, one, true),
		idle(b, one, true, "beyond keep-alives", "nothing but lease keep-alives", .02, "/s each"),
		[]asked{
			most(b, "100 waiters: at most 3 requests each until all had their turn", of("waiting", hundred, one, "drain"), 3, ""),
			most(b, "10,000 names used once: nothing left", of("scale", tenKOnce, one, "left behind"), .001, "each"),
		})
}

// idle is what is asked of waiters of all kinds while nothing happens, in words and as the
// most that a metric may be.
func idle(backend, contender string, permits bool, metric, words string, limit float64, unit string) []asked {
	list := []asked{
		most(backend, "100 idle waiters: "+words, of("waiting", hundred, contender, metric), limit, unit),
		most(backend, "100 idle readers behind a writer: "+words, of("waiting", hundredReaders, contender, metric), limit, unit),
	}
	if permits {
		list = append(list, most(backend, "100 idle clients for 1 of 10 permits: "+words, of("waiting", hundredPermits, contender, metric), limit, unit))
	}
	return list
}

// kinds is what is asked of every backend alike: of hand-over, shared locks and, if it has
// them, permits.
func kinds(backend, contender string, permits bool) []asked {
	list := []asked{
		atLeast(backend, "hand-over, 16 goroutines of one Locker: at least 100,000 locks/s", of("hand-over", sixteenOne, contender, "rate"), 100_000, "/s"),
		atLeast(backend, "hand-over, 16 processes: at least 50,000 locks/s together", of("hand-over", processes, contender, "rate"), 50_000, "/s"),
		most(backend, "hand-over, 16 processes: largest share at most 1.5 of the smallest", of("hand-over", processes, contender, "largest/smallest"), 1.5, ""),
		{backend, "64 readers of one name: at least the rate of 64 names",
			of("readers", readersOne, contender, "rate"), of("readers", readersMany, contender, "rate"), true, 1, "/s"},
		most(backend, "a writer among 64 readers: p99 under 10 hand-overs", of("readers", writerAmong, contender, "in hand-overs"), 10, ""),
	}
	if !permits {
		return list
	}
	return append(list,
		most(backend, "100 clients for 10 permits: never 11", of("permits", permitOfTen, contender, "too many"), 0, ""),
		most(backend, "100 clients for 10 permits: less than one of the ten idle", of("permits", permitOfTen, contender, "idle"), 10, "%"),
		asked{backend, "100 clients for 10 permits: at most 1.5 of the requests of exclusive locks",
			of("permits", permitOfTen, contender, "requests"), of("permits", "exclusive", contender, "requests"), false, 1.5, ""})
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

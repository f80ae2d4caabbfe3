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

// most asks for a figure that is at most the limit, atLeast for one that is no less.
func most(backend, what string, k measure.Key, limit float64, unit string) asked {
	return asked{backend: backend, what: what, of: k, limit: limit, unit: unit}
}

func atLeast(backend, what string, k measure.Key, limit float64, unit string) asked {
	return asked{backend: backend, what: what, of: k, atLeast: true, limit: limit, unit: unit}
}

// beside makes it a ratio to the same figure of another contender.
func (a asked) beside(other string) asked {
	a.than = a.of
	a.than.Contender = other
	return a
}

// besideCase makes it a ratio to the same figure of another case.
func (a asked) besideCase(kase string) asked {
	a.than = a.of
	a.than.Case = kase
	return a
}

// demands is the list, in the order of the report. Where the wish is "under" a limit,
// equality is not told apart from it.
func demands() []asked {
	return slices.Concat(memoryDemands(), redisDemands(), redlockDemands(), zooKeeperDemands(), etcdDemands())
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
			atLeast(b, "alone: at least 0.85 of redislock's rate", of("alone", "", b, "rate"), .85, "/s").beside(rival),
			most(b, "16 clients: at most 3 requests", of("contended", sixteen, b, "requests"), 3, ""),
			atLeast(b, "16 clients: at least 0.75 of redislock's rate", of("contended", sixteen, b, "rate"), .75, "/s").beside(rival),
			most(b, "16 clients: p99 at most a fifth of redislock's", of("contended", sixteen, b, "acquire p99"), .2, "ms").beside(rival),
			atLeast(b, "16 clients, 1 ms of network: at least 1.4 of redislock's rate", of("contended", sixteenFar, b, "rate"), 1.4, "/s").beside(rival),
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
			atLeast(b, "alone, with fencing: at least redsync's rate", of("alone", "", five, "rate"), 1, "/s").beside(rival),
			atLeast(b, "16 clients, with fencing: at least redsync's rate", of("contended", sixteen, five, "rate"), 1, "/s").beside(rival),
			most(b, "16 clients: p99 at most a fifth of redsync's", of("contended", sixteen, five, "acquire p99"), .2, "ms").beside(rival),
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
			atLeast(b, "alone: at least zk.Lock's rate", of("alone", "", one, "rate"), 1, "/s").beside(rival),
			most(b, "16 clients: at most 5 requests", of("contended", sixteen, one, "requests"), 5, ""),
			atLeast(b, "16 clients: at least zk.Lock's rate", of("contended", sixteen, one, "rate"), 1, "/s").beside(rival),
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
			atLeast(b, "alone: at least 0.95 of concurrency.Mutex", of("alone", "", one, "rate"), .95, "/s").beside(rival),
			most(b, "16 clients: at most 5 requests", of("contended", sixteen, one, "requests"), 5, ""),
			atLeast(b, "16 clients: at least 3 times concurrency.Mutex", of("contended", sixteen, one, "rate"), 3, "/s").beside(rival),
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
		atLeast(backend, "64 readers of one name: at least the rate of 64 names",
			of("readers", readersOne, contender, "rate"), 1, "/s").besideCase(readersMany),
		most(backend, "a writer among 64 readers: p99 under 10 hand-overs", of("readers", writerAmong, contender, "in hand-overs"), 10, ""),
	}
	if !permits {
		return list
	}
	return append(list,
		most(backend, "100 clients for 10 permits: never 11", of("permits", permitOfTen, contender, "too many"), 0, ""),
		most(backend, "100 clients for 10 permits: less than one of the ten idle", of("permits", permitOfTen, contender, "idle"), 10, "%"),
		most(backend, "100 clients for 10 permits: at most 1.5 of the requests of exclusive locks",
			of("permits", permitOfTen, contender, "requests"), 1.5, "").besideCase("exclusive"))
}

// Answers compares what is asked of the backends that were chosen with what was measured.
func Answers(in Input) []Answer {
	var all []Answer
	for _, a := range demands() {
		if !slices.ContainsFunc(in.Plan.Contenders, func(c contender.Contender) bool { return c.Name == a.of.Contender }) {
			continue
		}
		answer := a.answer(in.Outcome.Results)
		if answer.Met == notMeasured && !(in.planned(a.of) && (a.than.Metric == "" || in.planned(a.than))) {
			answer.Run = fmt.Sprintf(`make compare ARGS="-full -backends %s -experiments %s"`, a.backend, a.of.Experiment)
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
	var by groups // what the commands measure that was not
	for _, a := range Answers(in) {
		switch {
		case a.Met == "yes":
			met++
		case a.Met == notMeasured && a.Run != "":
			missing++
			by.add(a.Run, a.Asked)
		case a.Met == notMeasured:
			missing++
			failed++
		}
		t.Rows = append(t.Rows, []string{a.Backend, a.Asked, a.Measured, a.Rival, a.Ratio, a.Met})
	}
	for _, run := range by.order {
		s.List = append(s.List, fmt.Sprintf("not measured in this form, run `%s`: %s", run, strings.Join(by.of[run], "; ")))
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

// groups are things by what they have in common, in the order in which that came.
type groups struct {
	order []string
	of    map[string][]string
}

func (g *groups) add(common, thing string) {
	if g.of == nil {
		g.of = map[string][]string{}
	}
	if g.of[common] == nil {
		g.order = append(g.order, common)
	}
	g.of[common] = append(g.of[common], thing)
}

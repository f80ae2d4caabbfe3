package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/measure"
)

// chooser answers "Which one?" from the figures of this project's backends.
type chooser struct {
	r    figures
	ours []contender.Contender
}

// figures are those of a run.
type figures interface {
	Median(k measure.Key) float64
	Values(k measure.Key) []float64
}

// ranked is a backend with its figure.
type ranked struct {
	contender.Contender
	value float64
}

type ranking []ranked

// rank orders those of our backends that work across machines and have a figure, the best first: that with the most if
// better is 1, with the least if it is -1.
func (c chooser) rank(experiment, kase, metric string, better float64) ranking {
	var list ranking
	for _, o := range c.ours {
		if o.Setup.Local() || o.Setup.Variant != contender.Usual || strings.HasSuffix(o.Name, "-unfenced") {
			continue
		}
		if v := c.r.Median(of(experiment, kase, o.Name, metric)); !math.IsNaN(v) {
			list = append(list, ranked{o, v})
		}
	}
	slices.SortStableFunc(list, func(a, b ranked) int { return cmp.Compare(better*b.value, better*a.value) })
	return list
}

// filter returns those of the list of whom keep is true.
func (list ranking) filter(keep func(ranked) bool) ranking {
	return slices.DeleteFunc(slices.Clone(list), func(r ranked) bool { return !keep(r) })
}

// names writes the list without its values.
func (list ranking) names() string {
	var all []string
	for _, l := range list {
		all = append(all, l.Name)
	}
	return strings.Join(all, ", ")
}

// figures writes the list with its values.
func (list ranking) figures(unit string) string {
	var parts []string
	for _, l := range list {
		parts = append(parts, l.Name+" "+with(number(l.value), unit))
	}
	return strings.Join(parts, ", ")
}

// advice returns one line of the table: what is wanted, what to take, and why; nil if there are no figures for it.
type advice func(c chooser) []string

var advices = []advice{
	best("A free lock in the least time", "alone", "", pairP50, -1, "alone, acquire+release p50", "ms"),
	best("Many who want the same name", "contended", sixteen, "rate", 1, "contended, 16 clients, rate", "/s"),
	best("Many goroutines of several processes who want the same name", "hand-over", processes, "rate", 1,
		"WithHandOver(5ms), 16 processes of 16 goroutines, rate", "/s"),
	best("Many readers of the same name", "readers", readersOne, "rate", 1, "readers, 64 of one name, rate", "/s"),
	atMost("The lock in order of arrival", "fairness", twentyFour, "out of order", 1, "fairness, out of order", "%"),
	best("Very many who wait", "waiting", hundred, "CPU", -1, "waiting, 100 clients, CPU of the client", "ms/s"),
	best("Very many locks held by one process", "scale", "1000 names held at once", "renewals", -1,
		"scale, 1,000 names, renewals", "/s"),
	best("The next holder soon after one was killed", "death", "killed, TTL 2s", "next holder", -1,
		"death, TTL 2 s (a shorter TTL shortens it everywhere)", "ms"),
	neverTwo,
	atMost("Two may hold for a moment, and the store checks tokens",
		"shop", "a holder paused beyond its TTL, tokens checked", "oversold", 0,
		"shop, holder paused, tokens checked, oversold", ""),
	best("Least time without locks when the leading server dies", "failover", "leader killed", "slowest client", -1,
		"failover, leader killed, slowest client", "ms"),
	noPause,
	running(contender.Redis, "Redis"),
	running(contender.ZooKeeper, "ZooKeeper"),
	running(contender.Etcd, "etcd"),
	running(contender.Postgres, "PostgreSQL"),
	running(contender.MariaDB, "MariaDB"),
	local("Several processes of one machine, and no server", "file"),
	local("One process only, or a test of one's own code", "memory"),
}

// best is to take the first by a figure, or those within a tenth of it.
func best(want, experiment, kase, metric string, better float64, what, unit string) advice {
	return func(c chooser) []string {
		list := c.rank(experiment, kase, metric, better)
		if len(list) < 2 {
			return nil
		}
		near := list.filter(func(r ranked) bool { return math.Abs(r.value-list[0].value) <= .1*math.Abs(list[0].value) })
		return []string{want, near.names(), what + ": " + list.figures(unit)}
	}
}

// atMost is to take all whose figure is no greater than a limit.
func atMost(want, experiment, kase, metric string, limit float64, what, unit string) advice {
	return func(c chooser) []string {
		list := c.rank(experiment, kase, metric, -1)
		if len(list) == 0 {
			return nil
		}
		return []string{want, list.filter(func(r ranked) bool { return r.value <= limit }).names(), what + ": " + list.figures(unit)}
	}
}

// neverTwo stands on the failovers of Redis, and on those who were never seen to have two.
func neverTwo(c chooser) []string {
	lost := slices.Concat(
		c.rank("failover", "Redis master dies before its replica saw the lock", "two hold", -1),
		c.rank("failover", "a node of five restarts empty", "two hold", -1))
	quorum := c.rank("failover", "leader killed", "nobody", -1)
	if len(lost) == 0 || len(quorum) == 0 {
		return nil
	}
	return []string{"Never two who hold because a server lost its data", quorum.names(),
		"failover, two hold: " + lost.figures("%") + "; the others write to a majority of disks before they answer"}
}

// noPause compares RedLock with a node that is black-holed with itself.
func noPause(c chooser) []string {
	sick, well := c.r.Values(of("alone", "", "redlock-5-blackhole", pairP99)), c.r.Values(of("alone", "", "redlock-5", pairP99))
	q := measure.Ratio(sick, well)
	if !(q <= 1.5) { // nor if it was not measured
		return nil
	}
	return []string{"No pause at all when one server of several falls silent", "redlock-5",
		fmt.Sprintf("alone, p99 with one node of five black-holed is %s of that with all healthy", number(q))}
}

// local is to take the one backend that needs no server for what is wanted.
func local(want, backend string) advice {
	return func(c chooser) []string {
		rate := c.r.Median(of("alone", "", backend, "rate"))
		if math.IsNaN(rate) {
			return nil
		}
		return []string{want, backend, "alone, rate: " + with(number(rate), "/s")}
	}
}

// running compares the backends of a kind of server that is there already with the fastest.
func running(s contender.Service, name string) advice {
	return func(c chooser) []string {
		all := c.rank("alone", "", pairP50, -1)
		list := all.filter(func(r ranked) bool { return r.Setup.Service == s })
		if len(list) == 0 || len(all) < 2 {
			return nil
		}
		first := list[0]
		because := fmt.Sprintf("alone, p50 %s ms, ", number(first.value))
		if first.Name == all[0].Name {
			because += "the least of all"
		} else {
			because += fmt.Sprintf("%s times that of %s", number(first.value/all[0].value), all[0].Name)
		}
		return []string{"Already running " + name, first.Name, because}
	}
}

// whichSection is "Which one?".
func whichSection(in Input) (Section, bool) {
	c := chooser{r: in.Outcome.Results}
	for _, o := range in.Plan.Contenders {
		if o.Role == contender.Ours {
			c.ours = append(c.ours, o)
		}
	}
	t := Table{Head: []string{"what is wanted", "take", "because (figures of this run)"}, Left: true}
	for _, a := range advices {
		if line := a(c); line != nil {
			t.Rows = append(t.Rows, line)
		}
	}
	return Section{Title: "Which one?", Tables: []Table{t}, Text: []string{
		"Computed from the figures above, for servers and clients on one machine. Those within a tenth of the best are named together.",
	}}, len(t.Rows) > 0
}

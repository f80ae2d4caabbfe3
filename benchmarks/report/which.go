package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/measure"
)

// chooser answers "Which one?" from the figures of this project's backends.
type chooser struct {
	r    *measure.Results
	ours []contender.Contender
}

// ranked is a backend with its figure.
type ranked struct {
	name  string
	value float64
}

// rank orders those of our backends that have a figure, the best first. which picks who
// is asked; nil is everybody that works across machines.
func (c chooser) rank(experiment, kase, metric string, better int, which func(contender.Contender) bool) []ranked {
	var list []ranked
	for _, o := range c.ours {
		if o.Setup.Service == contender.Memory || o.Setup.Variant != contender.Usual || strings.HasSuffix(o.Name, "-unfenced") {
			continue
		}
		if which != nil && !which(o) {
			continue
		}
		if v := c.r.Median(of(experiment, kase, o.Name, metric)); !math.IsNaN(v) {
			list = append(list, ranked{o.Name, v})
		}
	}
	slices.SortStableFunc(list, func(a, b ranked) int {
		switch {
		case a.value == b.value:
			return 0
		case (a.value < b.value) == (better < 0):
			return -1
		}
		return 1
	})
	return list
}

// figures writes the list with its values.
func figures(list []ranked, unit string) string {
	var parts []string
	for _, l := range list {
		parts = append(parts, l.name+" "+with(number(l.value), unit))
	}
	return strings.Join(parts, ", ")
}

// best are the names of the first, and of those within a tenth of it.
func best(list []ranked) string {
	var names []string
	for _, l := range list {
		if math.Abs(l.value-list[0].value) <= .1*math.Abs(list[0].value) {
			names = append(names, l.name)
		}
	}
	return strings.Join(names, ", ")
}

// advice is one line of the table; nil if there are no figures for it.
type advice func(c chooser) (want, take, because string)

var advices = []advice{
	func(c chooser) (string, string, string) {
		l := c.rank("alone", "", pairP50, -1, nil)
		return line("A free lock in the least time", l, "alone, acquire+release p50", "ms")
	},
	func(c chooser) (string, string, string) {
		l := c.rank("contended", sixteen, "rate", 1, nil)
		return line("Many who want the same name", l, "contended, 16 clients, rate", "/s")
	},
	func(c chooser) (string, string, string) {
		l := c.rank("hand-over", processes, "rate", 1, nil)
		return line("Many goroutines of several processes who want the same name", l, "WithHandOver(5ms), 16 processes of 16 goroutines, rate", "/s")
	},
	func(c chooser) (string, string, string) {
		l := c.rank("readers", readersOne, "rate", 1, nil)
		return line("Many readers of the same name", l, "readers, 64 of one name, rate", "/s")
	},
	func(c chooser) (string, string, string) {
		l := c.rank("fairness", twentyFour, "out of order", -1, nil)
		var fair []string
		for _, f := range l {
			if f.value <= 1 {
				fair = append(fair, f.name)
			}
		}
		if len(l) == 0 {
			return "", "", ""
		}
		return "The lock in order of arrival", strings.Join(fair, ", "), "fairness, out of order: " + figures(l, "%")
	},
	func(c chooser) (string, string, string) {
		l := c.rank("waiting", hundred, "CPU", -1, nil)
		return line("Very many who wait", l, "waiting, 100 clients, CPU of the client", "ms/s")
	},
	func(c chooser) (string, string, string) {
		l := c.rank("scale", "1000 names held at once", "renewals", -1, nil)
		return line("Very many locks held by one process", l, "scale, 1,000 names, renewals", "/s")
	},
	func(c chooser) (string, string, string) {
		l := c.rank("death", "killed, TTL 2s", "next holder", -1, nil)
		return line("The next holder soon after one was killed", l, "death, TTL 2 s (a shorter TTL shortens it everywhere)", "ms")
	},
	neverTwo,
	func(c chooser) (string, string, string) {
		l := c.rank("shop", "a holder paused beyond its TTL, tokens checked", "oversold", -1, nil)
		l = slices.DeleteFunc(l, func(r ranked) bool { return r.value > 0 })
		if len(l) == 0 {
			return "", "", ""
		}
		return "Two may hold for a moment, and the store checks tokens", names(l), "shop, holder paused, tokens checked, oversold: " + figures(l, "")
	},
	func(c chooser) (string, string, string) {
		l := c.rank("failover", "leader killed", "slowest client", -1, nil)
		return line("Least time without locks when the leading server dies", l, "failover, leader killed, slowest client", "ms")
	},
	func(c chooser) (string, string, string) {
		sick, well := c.r.Values(of("alone", "", "redlock-5-blackhole", pairP99)), c.r.Values(of("alone", "", "redlock-5", pairP99))
		q := measure.Ratio(sick, well)
		if !(q <= 1.5) { // nor if it was not measured
			return "", "", ""
		}
		return "No pause at all when one server of several falls silent", "redlock-5",
			fmt.Sprintf("alone, p99 with one node of five black-holed is %s of that with all healthy", number(q))
	},
	running(contender.Redis, "Redis"),
	running(contender.ZooKeeper, "ZooKeeper"),
	running(contender.Etcd, "etcd"),
	running(contender.Postgres, "PostgreSQL"),
	running(contender.MariaDB, "MariaDB"),
	func(c chooser) (string, string, string) {
		rate := c.r.Median(of("alone", "", "memory", "rate"))
		if math.IsNaN(rate) {
			return "", "", ""
		}
		return "One process only, or a test of one's own code", "memory", "alone, rate: " + with(number(rate), "/s")
	},
}

func names(list []ranked) string {
	var all []string
	for _, l := range list {
		all = append(all, l.name)
	}
	return strings.Join(all, ", ")
}

func line(want string, l []ranked, what, unit string) (string, string, string) {
	if len(l) < 2 {
		return "", "", ""
	}
	return want, best(l), what + ": " + figures(l, unit)
}

// neverTwo stands on the failovers of Redis, and on those who were never seen to have two.
func neverTwo(c chooser) (string, string, string) {
	var seen []string
	for _, kase := range []string{"Redis master dies before its replica saw the lock", "a node of five restarts empty"} {
		for _, l := range c.rank("failover", kase, "two hold", -1, nil) {
			seen = append(seen, fmt.Sprintf("%s %s %%", l.name, number(l.value)))
		}
	}
	var quorum []string
	for _, l := range c.rank("failover", "leader killed", "nobody", -1, nil) {
		quorum = append(quorum, l.name)
	}
	if len(seen) == 0 || len(quorum) == 0 {
		return "", "", ""
	}
	return "Never two who hold because a server lost its data", strings.Join(quorum, ", "),
		"failover, two hold: " + strings.Join(seen, ", ") + "; the others write to a majority of disks before they answer"
}

// running compares the backends of a kind of server that is there already with the fastest.
func running(s contender.Service, name string) advice {
	return func(c chooser) (string, string, string) {
		all := c.rank("alone", "", pairP50, -1, nil)
		l := c.rank("alone", "", pairP50, -1, func(o contender.Contender) bool { return o.Setup.Service == s })
		if len(l) == 0 || len(all) < 2 {
			return "", "", ""
		}
		because := fmt.Sprintf("alone, p50 %s ms, the least of all", number(l[0].value))
		if l[0] != all[0] {
			because = fmt.Sprintf("alone, p50 %s ms, %s times that of %s", number(l[0].value), number(l[0].value/all[0].value), all[0].name)
		}
		return "Already running " + name, l[0].name, because
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
		if want, take, because := a(c); want != "" {
			t.Rows = append(t.Rows, []string{want, take, because})
		}
	}
	return Section{Title: "Which one?", Tables: []Table{t}, Text: []string{
		"Computed from the figures above, for servers and clients on one machine. Those within a tenth of the best are named together.",
	}}, len(t.Rows) > 0
}

package faults

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// absence is why a row is not run on some setups, by name or family; on none of those that
// it is not for if none are named.
type absence struct {
	on  []string
	why string
}

const (
	noSession   = "a lock has a key, and no session or lease that could end by itself; row 11 takes the key away"
	noLeader    = "there are not several servers with a leader"
	noQuorum    = "there is no majority that the lock depends on; rows 22 and 32 take the servers away"
	noReplica   = "there is no replica that could take the place of a master"
	otherServer = "no server of this kind does this"
	asRedis1    = "the row gives redis-1 a server without persistence, too: it would be the same once more"
	onlyRedLock = "it is about one of several servers that know nothing of each other"
)

// absences are by the title of a row. With docs/faults.md they say of every pair of row and
// setup where it is run, or why not; TestEveryRowOnEverySetup sees to it that no pair is
// missing.
var absences = map[string][]absence{
	"08-release-with-servers-dead":     {{[]string{"redis-empty"}, "it comes back without the lock; row 18"}},
	"12-session-closed-from-elsewhere": {{nil, noSession}},
	"13-partition-3s":                  {{nil, "it is about the event by which a ZooKeeper client hears of a partition; row 3 is the same for others"}},
	"14-leader-stopped":                {{nil, noLeader}},
	"15-leader-moved":                  {{[]string{"zookeeper-3"}, "no leader can be asked to step down; row 33 kills it"}, {nil, noLeader}},
	"16-compaction":                    {{nil, otherServer}},
	"18-restarts-empty":                {{[]string{"redlock-5"}, "row 20"}, {nil, "it comes back with what it knew; row 32"}},
	"19-failover-before-replication":   {{[]string{etcdFamily, zooKeeperFamily}, "what is acknowledged is with a majority"}, {[]string{"redlock-5"}, "it is what row 20 does to several servers"}, {nil, noReplica}},
	"20-node-restarts-empty":           {{nil, onlyRedLock}},
	"21-clock-jump":                    {{nil, "sessions and leases are counted by the servers' monotonic clocks"}},
	"23-node-black-holed":              {{nil, onlyRedLock}},
	"26-eviction":                      {{[]string{"redis-empty"}, asRedis1}, {nil, otherServer}},
	"27-out-of-memory":                 {{[]string{"redis-empty"}, asRedis1}, {[]string{etcdFamily}, "row 30"}, {nil, otherServer}},
	"28-refusals":                      {{[]string{"redis-empty"}, asRedis1}, {nil, "these are answers of Redis; others have rows 29 to 31"}},
	"28-cluster-down":                  {{nil, "it is an answer of a Cluster"}},
	"29-credentials":                   {{[]string{"redis-empty"}, asRedis1}},
	"29-tls":                           {{[]string{"redis-empty"}, asRedis1}},
	"30-out-of-space":                  {{nil, "no other server has a quota; for memory see row 27"}},
	"31-quorum-lost":                   {{[]string{"redis-cluster"}, "row 28, cluster-down"}, {[]string{"redis-sentinel"}, "Sentinels are asked for the master's address only; row 44"}, {nil, noQuorum}},
	"32-all-restarted":                 {{[]string{"redis-empty"}, "row 18"}},
	"33-leader-killed":                 {{nil, noLeader}},
	"34-parent-deleted":                {{nil, otherServer}},
	"35-numbers-used-up":               {{nil, otherServer}},
	"35-foreign-children":              {{nil, "queues are not in a tree that others can write to"}},
	"37-slot-migrated":                 {{nil, "there are no slots"}},
	"44-failover":                      {{[]string{etcdFamily, zooKeeperFamily}, "row 33"}, {nil, noReplica}},
	"45-two-nodes-dead":                {{nil, onlyRedLock}},
	"48-permits-after-failover":        {{[]string{etcdFamily, zooKeeperFamily}, "what is acknowledged is with a majority"}, {[]string{"redlock-5"}, "RedLock has no permits"}, {nil, noReplica}},
}

// absent is why the row of this title is not run on b, "" if nothing is said. named: it is
// said of this setup.
func absent(title string, b Backend) (why string, named bool) {
	for _, a := range absences[title] {
		named := slices.Contains(a.on, b.Name) || slices.Contains(a.on, b.Family)
		if named || len(a.on) == 0 {
			return a.why, named
		}
	}
	return "", false
}

// titles are those of the rows, each once, in the order of the table.
func titles() []string {
	var all []string
	for _, r := range Rows {
		all = append(all, r.Title())
	}
	return slices.Compact(all)
}

func runsOn(title string, b Backend) bool {
	return slices.ContainsFunc(Rows, func(r Row) bool { return r.Title() == title && r.Applies(b) })
}

// Every fault of the table is run on every setup, or it is said why not.
func TestEveryRowOnEverySetup(t *testing.T) {
	numbers := map[int]bool{}
	for _, r := range Rows {
		numbers[r.Number] = true
	}
	for n := 1; n <= 52; n++ {
		if !numbers[n] {
			t.Errorf("there is no row %d", n)
		}
	}
	all := titles()
	for title := range absences {
		if !slices.Contains(all, title) {
			t.Errorf("there is no row %s", title)
		}
	}
	for _, title := range all {
		excused := 0
		for _, b := range Backends {
			why, named := absent(title, b)
			switch runs := runsOn(title, b); {
			case !runs && why == "":
				t.Errorf("row %s is not run on %s, and nobody says why", title, b.Name)
			case !runs:
				excused++
			case named:
				t.Errorf("row %s is run on %s, although: %s", title, b.Name, why)
			}
		}
		if excused == 0 && len(absences[title]) > 0 {
			t.Errorf("row %s is run everywhere", title)
		}
	}
}

// absentPage is the part of docs/faults.md about what is not run.
func absentPage() string {
	var b strings.Builder
	b.WriteString("\n## Where a row is not run\n\n| row | not on | why |\n|---|---|---|\n")
	for _, title := range titles() {
		whys := map[string][]string{}
		var order []string
		for _, back := range Backends {
			if runsOn(title, back) {
				continue
			}
			why, _ := absent(title, back)
			if whys[why] == nil {
				order = append(order, why)
			}
			whys[why] = append(whys[why], back.Name)
		}
		for _, why := range order {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", title, strings.Join(whys[why], ", "), why)
		}
	}
	return b.String()
}

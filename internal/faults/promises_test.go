package faults

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed80cd6120/locker/conformance"
)

const promisesPath = "../../docs/promises.md"

// column is a column of the promise table in docs/contract.md.
type column struct {
	name, folder string
	claims       conformance.Backend
	also         []string // tests beside TestConformance that run the suite
	family       string   // of rows
	lacks        []string // hooks that its harness does not have
}

// asks reports whether the suite runs the case there.
func (c column) asks(cs conformance.Case) bool {
	return cs.Asked(c.claims) && !slices.ContainsFunc(cs.Hooks(), func(hook string) bool { return slices.Contains(c.lacks, hook) })
}

var columns = []column{
	{"memory", "memory", conformance.Backend{Fair: true, Fenced: true, Shared: true, Permits: true, Downgrade: true, Inspect: true, Evict: true, AtLeast: true, Durable: true}, nil, "", []string{"Harness.Address", "Harness.Misconfigured"}},
	{"file", "file", conformance.Backend{Fair: true, Fenced: true, Shared: true, Permits: true, Downgrade: true, Inspect: true, Evict: true, AtLeast: true, Durable: true}, nil, "", []string{"Harness.Stop and Start"}},
	{"Redis", "redis", conformance.Backend{Fair: true, Fenced: true, Shared: true, Permits: true, Downgrade: true, Inspect: true, Evict: true, AtLeast: true, Durable: true}, []string{"TestConformanceSentinel", "TestConformanceCluster"}, redisFamily, nil},
	{"RedLock", "redlock", conformance.Backend{Fenced: true, Shared: true, Downgrade: true, Inspect: true, Evict: true, AtLeast: true, Durable: true}, []string{"TestConformanceWithTwoDead", "TestConformanceWithOneBlackHole"}, redlockFamily, nil},
	{"ZooKeeper", "zookeeper", conformance.Backend{Fair: true, Fenced: true, Shared: true, Permits: true, Downgrade: true, Inspect: true, Evict: true, AtLeast: true, Durable: true}, []string{"TestConformanceOfEnsemble"}, zooKeeperFamily, nil},
	{"etcd", "etcd", conformance.Backend{Fair: true, Fenced: true, Shared: true, Permits: true, Downgrade: true, Inspect: true, Evict: true, AtLeast: true, Durable: true}, []string{"TestConformanceThree", "TestConformanceOld"}, etcdFamily, nil},
	{"PostgreSQL", "postgres", conformance.Backend{Fair: true, Fenced: true, Shared: true, Permits: true, Downgrade: true, Inspect: true, Evict: true, AtLeast: true, Durable: true}, []string{"TestConformanceDurable", "TestConformancePgBouncer", "TestConformancePolling"}, "", nil},
	{"MySQL", "mysql", conformance.Backend{Fair: true, Fenced: true, Shared: true, Permits: true, Downgrade: true, Inspect: true, Evict: true, AtLeast: true, Durable: true}, []string{"TestConformancePolling"}, "", nil},
}

// promises are what every backend keeps, by their names in docs/contract.md, with all that they say.
var promises = []struct{ name, says string }{
	{"Exclusion", "Holders of one name never overlap beyond what their kinds allow while servers keep their data and clocks run at a like rate."},
	{"Fencing", `Of two holdings of a name that cannot overlap the later has the greater token, in the order of the server's grants, also when exclusion was
lost (a paused process, a clock that jumps, a failover to a replica that never saw the lock). Between holdings that may overlap (shared, permits) tokens say
nothing. A store refuses an exclusive write whose token is lower than the greatest it has seen, and a shared operation whose token is lower than
the greatest exclusive one.`},
	{"Loss is told first", `lock.Context() ends, with cause ErrLost, no later than the moment the server may give the lock to another: counted on a clock that
does not stop, from before the last acknowledged request was sent, less a margin. A renewal that hangs does not hide it. Context().Err() compares the clock
itself.`},
	{"Death frees", `A holder that is killed frees its locks within TTL (sessions: session timeout) plus one second. A dead reader does not live on other
readers' renewals.`},
	{"No ghosts", `An acquisition that returned an error, for any reason, leaves nothing behind on the server and never becomes a holder later.`},
	{"Prompt", `Every call returns within 100 ms of its ctx ending whatever the client library does, and errors.Is finds the ctx's error.`},
	{"Release is safe", `It frees only this holding; twice is harmless; after a loss it says ErrLost; it works when the ctx of the work has been cancelled.`},
	{"Waiting is cheap", `Waiters are woken by the server, an idle waiter costs it nothing, a release wakes those who can have the lock and not the herd.`},
	{"Fair", `In the order of arrival, over all kinds. With WithHandOver(d) a process may be ahead of its turn by d at most. RedLock: nobody starves.`},
	{"One Locker, many goroutines", `A name that is waited for never delays another; readers of one Locker hold together.`},
	{"Any name", `Any name of 1 to 1,024 bytes; and distinct names, and distinct prefixes of two Lockers, never meet.`},
	{"No litter", `Nothing that grows with the number of names ever used, on servers or in the process.`},
	{"Errors tell the truth", `Operation, backend, lock, the client's own error; at once or by ctx, never as a hang.`},
	{"Outage", `Waiters wait, holders keep the lock until its deadline, all goes on by itself afterwards.`},
	{"Close", `Close releases what is held, ends waiters with ErrClosed, stops every goroutine.`},
}

const promisesHead = `# The promises, and the tests that show them

For each promise and each backend the tests that show that it is kept, or what is left of it under
a fault that takes it away. Generated by ` + "`go test ./internal/faults -run TestPromises -update`" + `.

    go test ./redis -run 'TestConformance/Loss' -v               # the conformance suite; also the other tests that are named
    go test ./internal/faults -run 'TestRows/redis-1/03' -v   # rows of the fault table, see faults.md
    go test ./internal/faults -run 'TestCampaign/redis-1' -v  # random faults, with what all rows ask for

Where "the same below" names other forms of a backend, ` + "`make test`" + ` runs a part of the cases on them
(those that break something or count requests, and those of exclusion), and ` + "`make conformance`" + ` all.

The rows are run on PostgreSQL and MariaDB, too, by TestRows in [postgres](../postgres/faults_test.go) and [mysql](../mysql/faults_test.go), which are modules of their own.

All rows ask, whatever they are about, whether tokens rose (2), whether nobody held after the next was granted the
lock (1, 3), whether calls returned by their ctx and a second (6), and whether nothing was left (12, 15).

`

// promisesPage is what the page has to say.
func promisesPage() string {
	var b strings.Builder
	b.WriteString(promisesHead)
	for i, promise := range promises {
		fmt.Fprintf(&b, "## %d. %s\n\n%s\n\n", i+1, promise.name, promise.says)
		for _, c := range columns {
			fmt.Fprintf(&b, "### %d %s\n\n", i+1, c.name)
			var cases []string
			for _, cs := range conformance.Cases() {
				if cs.Promise == i+1 && c.asks(cs) {
					cases = append(cases, "`TestConformance/"+cs.Name+"`")
				}
			}
			if len(cases) > 0 {
				fmt.Fprintf(&b, "- [%s](../%[1]s): %s", c.folder+"/conformance_test.go", strings.Join(cases, ", "))
				if len(c.also) > 0 {
					fmt.Fprintf(&b, "; the same below `%s`", strings.Join(c.also, "`, `"))
				}
				b.WriteString("\n")
			}
			for _, row := range Rows {
				var on []string
				for _, back := range Backends {
					if back.Family == c.family && row.Applies(back) && slices.Contains(row.Shows, i+1) {
						on = append(on, "`TestRows/"+back.Name+"/"+row.Title()+"`")
					}
				}
				if len(on) > 0 {
					fmt.Fprintf(&b, "- [faults](faults.md): %s: %s\n", row.See, strings.Join(on, ", "))
				}
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

// The page of tests by promise is that of the code.
func TestPromises(t *testing.T) {
	want := promisesPage()
	if *update {
		must(t, os.WriteFile(promisesPath, []byte(want), 0o644))
	}
	have, err := os.ReadFile(promisesPath)
	must(t, err)
	if string(have) != want {
		t.Errorf("%s is not up to date: go test ./internal/faults -run TestPromises -update", promisesPath)
	}
	// Each test that is named is one of its file.
	for _, c := range columns {
		source, err := os.ReadFile(filepath.Join("..", "..", c.folder, "conformance_test.go"))
		must(t, err)
		for _, test := range append([]string{"TestConformance"}, c.also...) {
			if !bytes.Contains(source, []byte("func "+test+"(t *testing.T)")) {
				t.Errorf("%s has no %s", c.folder, test)
			}
		}
		for claim, claimed := range claims(c.claims) {
			if claimed != regexp.MustCompile(`\b`+claim+`: `).Match(source) {
				t.Errorf("%s claims %s in its tests or in columns, but not in both", c.folder, claim)
			}
		}
	}
	for _, row := range Rows {
		if len(row.Shows) == 0 {
			t.Errorf("row %s shows no promise", row.Title())
		}
		for _, n := range row.Shows {
			if n < 1 || n > len(promises) {
				t.Errorf("row %s shows promise %d, which does not exist", row.Title(), n)
			}
		}
	}
}

// settings are the fields that say how the suite is run, not what is claimed.
var settings = []string{"Private", "RequireAll", "Variant"}

// claims returns what is claimed of b, by the names of the fields.
func claims(b conformance.Backend) map[string]bool {
	all := map[string]bool{}
	v := reflect.ValueOf(b)
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.Type.Kind() == reflect.Bool && !slices.Contains(settings, f.Name) {
			all[f.Name] = v.Field(i).Bool()
		}
	}
	return all
}

// Every cell of the promise table links a test that shows it.
func TestPromiseTableLinks(t *testing.T) {
	page, err := os.ReadFile("../../docs/contract.md")
	must(t, err)
	cells, broken := promiseLinks(string(page), "../../docs")
	if want := len(promises) * len(columns); cells != want {
		t.Errorf("the promise table has %d cells, want %d", cells, want)
	}
	for _, b := range broken {
		t.Error(b)
	}
	for i, promise := range promises {
		if !strings.Contains(string(page), fmt.Sprintf("| %d | **%s", i+1, promise.name)) {
			t.Errorf("the promise table does not name %d, %s", i+1, promise.name)
		}
	}
}

var (
	promiseRow = regexp.MustCompile(`^\| (\d+) \| \*\*`)
	inline     = regexp.MustCompile(`\]\(([^)]+)\)`)
	reference  = regexp.MustCompile(`\]\[([^\]]+)\]`)
	definition = regexp.MustCompile(`(?m)^\[([^\]]+)\]: (\S+)$`)
)

// promiseLinks counts the cells of the promise table in a page, and says which have no
// link, or one to what is not there.
func promiseLinks(page, root string) (cells int, broken []string) {
	refs := map[string]string{}
	for _, m := range definition.FindAllStringSubmatch(page, -1) {
		refs[m[1]] = m[2]
	}
	for line := range strings.Lines(page) {
		m := promiseRow.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		parts := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i, cell := range parts[2:] {
			cells++
			where := fmt.Sprintf("promise %s, column %d (%s)", m[1], i+1, strings.TrimSpace(cell))
			var targets []string
			for _, l := range inline.FindAllStringSubmatch(cell, -1) {
				targets = append(targets, l[1])
			}
			for _, l := range reference.FindAllStringSubmatch(cell, -1) {
				targets = append(targets, refs[l[1]])
			}
			if len(targets) == 0 {
				broken = append(broken, where+": no link")
			}
			for _, target := range targets {
				if why := unreachable(root, target); why != "" {
					broken = append(broken, where+": "+why)
				}
			}
		}
	}
	return cells, broken
}

// unreachable says what is wrong with a link to a file, or to a heading in one.
func unreachable(root, target string) string {
	file, heading, deep := strings.Cut(target, "#")
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		return err.Error()
	}
	if !deep {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		title := strings.TrimSpace(strings.TrimLeft(line, "#"))
		if strings.HasPrefix(line, "#") && strings.ReplaceAll(strings.ToLower(title), " ", "-") == heading {
			return ""
		}
	}
	return fmt.Sprintf("%s has no heading %q", file, heading)
}

func TestPromiseLinks(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "page.md"), []byte("# Top\n\n### 1 Redis\n"), 0o600))
	cells, broken := promiseLinks("| | promise | a | b | c | d | e |\n|---|---|---|---|---|---|---|\n"+
		"| 1 | **One.** And all. | [yes](page.md#1-redis) | [yes][r] | yes | [yes](none.md) | [yes](page.md#2-redis) |\n\n[r]: page.md\n", dir)
	if cells != 5 || len(broken) != 3 {
		t.Errorf("%d cells, %q", cells, broken)
	}
}

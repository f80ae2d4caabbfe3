package main

import (
	"fmt"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/seed80cd6120/locker/benchmarks/trackrecord/checks"
)

// The table says of each check what go test said of it.
func TestTableOfEvents(t *testing.T) {
	var said strings.Builder
	run := func(test, complaint, action string) {
		fmt.Fprintf(&said, `{"Action":"run","Test":%q}`+"\n", test)
		if complaint != "" && strings.HasPrefix(test, "TestConformance/") {
			fmt.Fprintf(&said, `{"Action":"output","Test":%q,"Output":%q}`+"\n", test, "    cases_many.go:7: "+complaint+"\n")
			fmt.Fprintf(&said, `{"Action":"output","Test":%q,"Output":%q}`+"\n", test, "    cases_many.go:8: and more\n")
		}
		fmt.Fprintf(&said, `{"Action":%q,"Test":%q}`+"\n", action, test)
		if complaint != "" && !strings.HasPrefix(test, "TestConformance/") {
			fmt.Fprintf(&said, `{"Action":"output","Output":%q}`+"\n", "FAILED "+test+": "+complaint+"\n")
		}
	}
	for i := range 3 {
		run("TestTrack/locker/redis/neighbours", "", "pass")
		run("TestTrack/etcd.Mutex-1/neighbours", `"exam-9-1" is taken`, "fail")
		run("TestConformance/redislock/Prompt/Deadline", []string{"", "late", ""}[i], []string{"pass", "fail", "pass"}[i])
		run("TestTrack/zk.Lock-1/neighbours", []string{"", "A1 did not get the lock within 10s: why", ""}[i], []string{"pass", "fail", "pass"}[i])
		run("TestTrack/zk.Lock-1/no-such-check", "", "pass")
		run("TestTrack/zk.Lock-1/names-independent", "A1 did not get the lock within 10s: why", "fail")
		run("TestRow/etcd.Mutex-1/row/03-cut-off", "told late", "fail")
	}
	const kind = "TestConformance/zk.Lock-1/Exclusion/Lockers/exclusive"
	fmt.Fprintf(&said, `{"Action":"run","Test":%q}`+"\n", path.Dir(kind))
	fmt.Fprintf(&said, `{"Action":"output","Test":%q,"Output":%q}`+"\n", kind, "    oracle.go:7: two of them\n")
	fmt.Fprintf(&said, `{"Action":"fail","Test":%q}`+"\n", kind)
	fmt.Fprintf(&said, `{"Action":"fail","Test":%q}`+"\n", path.Dir(kind))
	said.WriteString("# what the compiler says is no event\n")
	r := read([]byte(said.String()))
	for _, c := range []struct{ library, check, want string }{
		{"locker/redis", "neighbours", "kept"},
		{"etcd.Mutex-1", "neighbours", "**broken**"},
		{"redislock", "Prompt/Deadline", "1 of 3"},
		{"zk.Lock-1", "neighbours", "kept"},
		{"zk.Lock-1", "death-frees", "?"},
		{"etcd.Mutex-1", "row/03-cut-off", "**broken**"},
		{"zk.Lock-1", "names-independent", "undecided"},
		{"zk.Lock-1", "Exclusion/Lockers", "1 of 1"},
	} {
		if got := r[c.library][c.check].cell(3); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.library, c.check, got, c.want)
		}
	}
	var written strings.Builder
	r.write(&written, 3, "A note.")
	for _, want := range []string{"A note.", "`TestTrack/etcd.Mutex-1/neighbours$` | 3 of 3 | \"x\" is taken |",
		"`TestRow/etcd.Mutex-1/row/03-cut-off$` | 3 of 3 | told late |", "`TestConformance/redislock/Prompt/Deadline$` | 1 of 3 | late |",
		"`TestConformance/zk.Lock-1/Exclusion/Lockers$` | 1 of 1 | two of them |"} {
		if !strings.Contains(written.String(), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// What has no outcome when a process ends is asked in another; what never has one is an error.
func TestProcessThatEnds(t *testing.T) {
	a := asking{times: 1, like: regexp.MustCompile("^(excludes-itself|neighbours|death-frees)$")}
	l := checks.Libraries()[0]
	event := func(test, action string) string { return fmt.Sprintf(`{"Action":%q,"Test":%q}`+"\n", action, test) }
	of := func(check string) string { return "TestTrack/" + l.Name + "/" + check }
	var asked []string
	said := a.testLibrary(l, func(run string, _ int) []byte {
		asked = append(asked, run)
		switch len(asked) {
		case 1:
			return []byte(event(of("excludes-itself"), "pass") + event(of("neighbours"), "run") + event(of("neighbours"), "fail"))
		case 2:
			return []byte(event(of("death-frees"), "run"))
		}
		t.Error("asked again what had no outcome in a process of its own")
		return nil
	})
	if want := exactly(of("death-frees")); len(asked) != 2 || asked[1] != want {
		t.Errorf("asked %q, want %q in the end", asked, want)
	}
	a.only = l.Name
	if err := a.complete(read(said)); err == nil || !strings.Contains(err.Error(), "without an outcome: "+l.Name+" death-frees") {
		t.Errorf("complete: %v, want that death-frees has no outcome", err)
	}
	if err := a.complete(read(append(said, event(of("death-frees"), "pass")...))); err != nil {
		t.Errorf("complete: %v", err)
	}
}

// The page in docs has a cell for everything that is asked, and shows at least twelve of the
// breaks that were known before.
func TestPage(t *testing.T) {
	text, err := os.ReadFile("../" + page)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range everything {
		if !strings.Contains(string(text), "| "+c.Sentence+" |") {
			t.Errorf("%s has no line for %s: go -C benchmarks run ./trackrecord", page, c.ID)
		}
	}
	if strings.Contains(string(text), "| ? |") {
		t.Errorf("%s has cells for what was not run", page)
	}
	show := 0
	for _, k := range checks.Known {
		if _, _, ok := parts(k.Test); !ok {
			t.Errorf("there is no %s", k.Test)
		}
		if strings.Contains(string(text), "| `"+k.Test+"$` | 3 of 3 |") {
			show++
		} else {
			t.Logf("does not show 3 times of 3: %s", k.What)
		}
	}
	if show < 12 {
		t.Errorf("%d of %d breaks that were known before show, want 12", show, len(checks.Known))
	}
}

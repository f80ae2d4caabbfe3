package checks

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/seed80cd6120/locker/conformance"
	"github.com/seed80cd6120/locker/internal/faults"
	"github.com/seed80cd6120/locker/internal/mustfail"
	"github.com/seed80cd6120/locker/internal/servers"
)

func TestMain(m *testing.M) {
	Libraries() // makes them known, in children too
	faults.Child()
	code := m.Run()
	_ = servers.StopAll()
	for _, line := range faults.Failures() {
		fmt.Println(line) // for the table, which wants the first complaint of each
	}
	os.Exit(code)
}

// TestTrack runs every check on every library that claims what it asks for. The
// libraries of others fail where docs/track-record.md says that they do; this project's
// must not.
func TestTrack(t *testing.T) {
	each(t, true, func(t *testing.T, l Library) {
		offered(t, l, All, func(t *testing.T, c Check, s *faults.Servers) { faults.Examine(t, s, c.Run) })
	})
}

// TestEveryLibraryIsAsked runs one check on every library, whatever comes of it; ./trackrecord runs them all.
func TestEveryLibraryIsAsked(t *testing.T) {
	servers.Need(t)
	check := All[slices.IndexFunc(All, func(c Check) bool { return c.ID == "names-independent" })]
	for _, l := range Libraries() {
		t.Run(l.Name, func(t *testing.T) {
			t.Parallel()
			ended := false
			said, failed := mustfail.Run(t, func(t testing.TB) {
				faults.Examine(t, faults.StartOn(t, l.Backend), check.Run)
				ended = true
			})
			if !ended && !failed {
				t.Errorf("the check was not run: %s", said)
			}
			t.Log(said)
		})
	}
}

// TestRow runs rows of package faults on the libraries of others that claim what they ask
// for.
func TestRow(t *testing.T) {
	each(t, false, func(t *testing.T, l Library) {
		offered(t, l, Rows, func(t *testing.T, c Check, s *faults.Servers) { rowOf(c).Examine(t, s) })
	})
}

// each runs test on every library, or on those of others. What they find is no defect here, and is
// for the table to say; what TestRow and TestConformance ask of this project's own locks is asked by package
// faults and the suite with every change.
func each(t *testing.T, ours bool, test func(t *testing.T, l Library)) {
	if os.Getenv("LOCKER_TRACK") == "" {
		t.Skip("it is about other libraries, which fail at some of it; ./trackrecord runs it with LOCKER_TRACK=1")
	}
	if !conformance.InChild() {
		servers.Need(t)
	}
	for _, l := range Libraries() {
		if ours || !l.Ours {
			t.Run(l.Name, func(t *testing.T) {
				t.Parallel()
				test(t, l)
			})
		}
	}
}

// offered runs those of the checks whose claims a library makes, each on servers of its own.
func offered(t *testing.T, l Library, all []Check, run func(t *testing.T, c Check, s *faults.Servers)) {
	for _, c := range all {
		if l.Offers(c) {
			t.Run(c.ID, func(t *testing.T) { run(t, c, faults.StartOn(t, l.Backend)) })
		}
	}
}

// rowOf is the row of package faults that a check stands for.
func rowOf(c Check) faults.Row {
	for _, r := range faults.Rows {
		if "row/"+r.Title() == c.ID {
			return r
		}
	}
	return faults.Row{}
}

// Every case of the suite and every row is put to others, or it is said why not.
func TestAllOrWhyNot(t *testing.T) {
	asked := func(kind string, ids []string, all []Check, not []Absence) {
		left := map[string]bool{}
		for _, id := range ids {
			left[id] = true
		}
		once := func(id string) {
			if !left[id] {
				t.Errorf("%s: there is no %s, or it is named twice", kind, id)
			}
			delete(left, id)
		}
		for _, c := range all {
			once(strings.TrimPrefix(c.ID, "row/"))
		}
		for _, a := range not {
			for _, id := range a.Cases {
				group, whole := strings.CutSuffix(id, "*")
				if !whole {
					once(id)
				}
				for _, other := range ids {
					if whole && strings.HasPrefix(other, group) {
						once(other)
					}
				}
			}
		}
		for id := range left {
			t.Errorf("%s: %s is not put to others, and nobody says why", kind, id)
		}
	}
	var cases, rows []string
	for _, c := range conformance.Cases() {
		cases = append(cases, c.Name)
	}
	for _, r := range faults.Rows {
		if !slices.Contains(rows, r.Title()) {
			rows = append(rows, r.Title())
		}
	}
	asked("the suite", cases, Suite, Unasked)
	asked("rows", rows, Rows, UnaskedRows)
}

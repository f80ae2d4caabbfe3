package checks

import (
	"fmt"
	"os"
	"testing"

	"github.com/seed80cd6120/locker/conformance"
	"github.com/seed80cd6120/locker/faults"
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
	servers.Need(t)
	if os.Getenv("LOCKER_TRACK") == "" {
		t.Skip("takes minutes; run with LOCKER_TRACK=1, as ./trackrecord does")
	}
	for _, l := range Libraries() {
		t.Run(l.Name, func(t *testing.T) {
			t.Parallel()
			for _, c := range All {
				if !l.Offers(c) {
					continue
				}
				t.Run(c.ID, func(t *testing.T) {
					faults.Examine(t, faults.StartOn(t, l.Backend), c.Run)
				})
			}
		})
	}
}

// TestRow runs rows of package faults on the libraries of others that claim what they ask
// for.
func TestRow(t *testing.T) {
	servers.Need(t)
	if os.Getenv("LOCKER_TRACK") == "" {
		t.Skip("takes minutes; run with LOCKER_TRACK=1, as ./trackrecord does")
	}
	for _, l := range Libraries() {
		if l.Ours {
			continue // package faults does this
		}
		t.Run(l.Name, func(t *testing.T) {
			t.Parallel()
			for _, c := range Rows {
				if l.Offers(c) {
					t.Run(c.ID, func(t *testing.T) { rowOf(c).Examine(t, faults.StartOn(t, l.Backend)) })
				}
			}
		})
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

// Each case and each row that is named exists.
func TestNames(t *testing.T) {
	cases := map[string]bool{}
	for _, c := range conformance.Cases() {
		cases[c.Name] = true
	}
	for _, c := range Suite {
		if !cases[c.ID] {
			t.Errorf("the suite has no %s", c.ID)
		}
	}
	for _, c := range Rows {
		if rowOf(c).Run == nil {
			t.Errorf("package faults has no %s", c.ID)
		}
	}
}

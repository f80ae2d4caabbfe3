package faults

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/servers"
)

var must = locktest.Must

func TestMain(m *testing.M) {
	Child()
	servers.AtOnce(64) // how many run is said by waiting and working
	code := m.Run()
	if err := report(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	servers.StopAll()
	for _, line := range Failures() {
		fmt.Println(line)
	}
	os.Exit(code)
}

// lane is how many of something run at once, so that the machine has not more to do than
// it can.
type lane chan struct{}

// enter waits for a place; what it returns gives that back.
func (l lane) enter() (leave func()) {
	l <- struct{}{}
	return func() { <-l }
}

// Rows wait for the most part, campaigns work as fast as they can.
var waiting, working = make(lane, 8), make(lane, 2)

// Every change is put to the test on these; on the others with what only they can show.
var quick = []Backend{Redis1, RedLock5, ZooKeeper3, Etcd3}

func isQuick(b Backend) bool {
	return slices.ContainsFunc(quick, func(q Backend) bool { return q.Name == b.Name })
}

// runs tells whether a row is run on b in this run. Who names rows with -run gets them.
func (r Row) runs(b Backend) bool {
	named := strings.Contains(flag.Lookup("test.run").Value.String(), "TestRows/")
	return r.Applies(b) && (Full || named || r.Quick && (isQuick(b) || slices.Contains(r.For, b.Name)))
}

// Each backend's rows run one after the other on the same servers, those of
// different backends at the same time.
func TestRows(t *testing.T) {
	servers.Need(t)
	t.Parallel()
	for _, b := range Backends {
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			defer waiting.enter()()
			var shared *Servers
			parent := t
			for _, row := range Rows {
				if !row.runs(b) {
					continue
				}
				t.Run(row.Title(), func(t *testing.T) {
					if row.Fresh || row.Backend != nil {
						b := b
						if row.Backend != nil {
							b = row.Backend(b)
						}
						row.Examine(t, StartOn(t, b))
						return
					}
					if shared == nil {
						shared = StartOn(parent, b)
					}
					row.Examine(t, shared)
					if t.Failed() {
						shared = nil // who knows in what state they are
					}
				})
			}
		})
	}
}

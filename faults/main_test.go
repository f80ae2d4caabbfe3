package faults

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/seed80cd6120/locker/internal/servers"
)

// full: everything is run, in its full length.
var full = os.Getenv("LOCKER_FAULTS") == "full"

func TestMain(m *testing.M) {
	Child()
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = flag.Set("test.parallel", "12") // they wait for the most part
	}
	code := m.Run()
	if !testing.Short() {
		fmt.Print(Table(Measured()))
		if err := keep(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	servers.StopAll()
	os.Exit(code)
}

// Each backend's rows run one after the other on the same servers, those of
// different backends at the same time.
func TestRows(t *testing.T) {
	servers.Need(t)
	for _, b := range Backends {
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			atOnce <- struct{}{}
			defer func() { <-atOnce }()
			var shared *Servers
			parent := t
			for _, row := range Rows {
				if !row.Applies(b) || !(row.Quick || full) {
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

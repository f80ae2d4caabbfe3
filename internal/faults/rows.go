package faults

import (
	"fmt"
	"slices"
	"testing"
)

// Row is one fault, what is done to the system and what must then be seen.
type Row struct {
	Number int
	// Shows are the promises that it is about, by their numbers in docs/contract.md. What every
	// row asks for is about 1, 2, 6, 12 and 15 besides.
	Shows []int
	Name  string
	// See says what must be seen beside the four things that every row asks for.
	See string
	// For are the families and the names of the backends that it applies to, all if empty.
	For []string
	// Quick: part of the tests that every change has to pass.
	Quick bool
	// Fresh: it leaves servers behind that are of no use to others.
	Fresh bool
	// Backend, if not nil, changes what it is run on.
	Backend func(b Backend) Backend

	Run func(x *Exam)
}

// Title is the name of the row's tests: "03-cut-off".
func (r Row) Title() string { return fmt.Sprintf("%02d-%s", r.Number, r.Name) }

// Applies reports whether the row is for b.
func (r Row) Applies(b Backend) bool {
	return len(r.For) == 0 || slices.Contains(r.For, b.Family) || slices.Contains(r.For, b.Name)
}

// Rows is the table. What is behind the numbers stands with each function.
var Rows []Row

func init() {
	Rows = slices.Concat(processRows, networkRows, sessionRows, serverRows, leaderRows, redisRows, redlockRows, etcdRows, zooKeeperRows, callRows, accessRows, kindRows, severalRows)
	slices.SortStableFunc(Rows, func(a, b Row) int { return a.Number - b.Number })
}

// Examine runs the row on servers of b for t.
func (r Row) Examine(t testing.TB, s *Servers) {
	t.Helper()
	examine(t, s, r.Run, r.Fresh)
}

// The families.
const (
	redisFamily     = "redis"
	redlockFamily   = "redlock"
	etcdFamily      = "etcd"
	zooKeeperFamily = "zookeeper"
)

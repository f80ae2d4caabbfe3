// Package faults breaks everything around a lock and looks at what its users then
// see: processes are stopped and killed, networks cut or frozen one way, servers
// killed, stalled, restarted empty, failed over. It is run by its tests:
//
//	go test ./internal/faults                          a part of it, in some minutes
//	LOCKER_FAULTS=full go test -v ./internal/faults    everything ("make faults")
//	go test ./internal/faults -run 'TestRows/etcd-3/14' -v
//
// # Rows
//
// [Rows] is a table of faults, each a short function that is run on every backend it
// applies to. Whatever it does and asks for by itself, every row ends with the same
// four questions, asked by [Exam]:
//
//  1. The resource that the lock protects (package fence) remembers the highest token
//     and refuses lower ones. Did it stay correct, and was no token given twice?
//  2. Had the context of each holder ended before the next was granted the lock?
//     (Package history, which also says what is meant by that.)
//  3. Was nobody stuck? Every call returned by its ctx and a second.
//  4. Is nothing left: key, node, lease, watch, connection, goroutine? Of claims, not
//     even while the users are open.
//
// Where a backend cannot prevent two holders (a Redis that fails over to a replica which
// never saw the lock) the row is run all the same, and has to show what is promised
// then: two holders whom their tokens tell apart.
//
// # Campaigns
//
// A [Campaign] lets at least eight processes take and give back a few names, thousands
// of times, while faults happen that are drawn at random from a seed. What they saw is
// recorded and judged. The seed is printed, and the same seed gives the same
// schedule of faults.
//
// # Other libraries
//
// Rows and campaigns know locks as a [conformance.Client], which a thin adapter can be
// for the lock of any library; see [Register].
package faults

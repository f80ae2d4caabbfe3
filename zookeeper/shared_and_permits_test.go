package zookeeper

import (
	"testing"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/servers"
)

func TestReadersHoldTogetherAndNobodyIsOvertaken(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op, a, b := console(t, z.Addr()), raw(t, []string{z.Addr()}), raw(t, []string{z.Addr()})
	n := name(t)
	first, second := shared(n), shared(n)
	take(t, a, first)
	take(t, b, second)
	w := claim(n)
	writer := waiting(t, op, a, w)
	r := shared(n)
	reader := waiting(t, op, b, r)
	taken(t, b, shared(n))
	release(t, a, first)
	stillWaits(t, writer, a)
	stillWaits(t, reader, b)
	release(t, b, second)
	writer.Granted(t, patience)
	stillWaits(t, reader, b)
	release(t, a, w)
	reader.Granted(t, patience)
	release(t, b, r)
	op.length(n, 0)
}

// Ten hold, and whichever of them goes first lets the first waiter in; the one behind that learns
// when it is the first to wait.
func TestPermits(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op, d := console(t, z.Addr()), raw(t, []string{z.Addr()})
	n := name(t)
	var held []*driver.Claim
	for range 10 {
		c := kind(n, 1, 10)
		take(t, d, c)
		held = append(held, c)
	}
	taken(t, d, kind(n, 1, 10))
	var queue []*driver.Claim
	var turns []*acquisition
	for range 6 {
		c := kind(n, 1, 10)
		queue = append(queue, c)
		turns = append(turns, waiting(t, op, d, c))
	}
	big := kind(n, 9, 10)
	last := waiting(t, op, d, big)
	for i, j := range []int{3, 9, 0, 5, 7, 1} { // any order
		release(t, d, held[j])
		turns[i].Granted(t, patience)
		if i+1 < len(turns) {
			stillWaits(t, turns[i+1], d)
		}
	}
	for i, c := range append(queue, held[2], held[4]) {
		release(t, d, c)
		if i < 7 {
			stillWaits(t, last, d)
		}
	}
	release(t, d, held[6])
	last.Granted(t, patience)           // beside one
	take(t, d, trying(kind(n, 1, 100))) // who allows more
	taken(t, d, kind(n, 1, 10))
}

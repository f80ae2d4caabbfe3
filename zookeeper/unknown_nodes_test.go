package zookeeper

import (
	"testing"
	"time"

	"github.com/seed80cd6120/locker/internal/servers"
)

// What a later version or somebody else puts into a queue stands in it.
func TestNodesOfUnknownFormStandInTheQueue(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op, d := console(t, z.Addr()), raw(t, []string{z.Addr()})
	const id = "0123456789abcdef0123456789abcdef"
	for _, child := range []string{
		"x", "_c_", "_c_short", "lock-", "lock-0000000000", id,
		id + "-2-all-all-0-0-0000000000", id + "-1-all-0000000000", id + "-1-all-all-0000000000",
		id + "-1-0-10-0-0-0000000000", id + "-1-11-10-0-0-0000000000",
		id + "-1-1-10-x-0-0000000000", id + "-1-1-10-0-x-0000000000", id + "-lock-99999999999",
	} {
		n := name(t)
		node := plantQueue(t, op, n) + "/" + child
		op.plant(node)
		taken(t, d, shared(n))
		c := shared(n)
		turn := waiting(t, op, d, c)
		stillWaits(t, turn, d)
		all, err := d.Look(within(t, time.Minute), n)
		if err != nil || len(all) != 2 || !all[0].Held || all[0].ID != child || all[1].Held {
			t.Fatalf("%s: look: %+v, %v", child, all, err)
		}
		must(t, d.Evict(within(t, time.Minute), n, child))
		turn.Granted(t, patience)
		release(t, d, c)
	}
	// Behind, it is in nobody's way.
	n := name(t)
	c := claim(n)
	take(t, d, c)
	op.plant(queuePath(folder, n) + "/" + id + "-2-all-all-0000000009")
	next := shared(n)
	turn := waiting(t, op, d, next)
	release(t, d, c)
	turn.Granted(t, patience)
}

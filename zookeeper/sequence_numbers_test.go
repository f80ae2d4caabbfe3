package zookeeper

import (
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/servers"
)

const someID = "0123456789abcdef0123456789abcdef"

// plantAs makes a node of the given number for a claim.
func plantAs(t *testing.T, d *backend, c *driver.Claim, path, seq string) *claimState {
	t.Helper()
	node := path + "/" + nameOf(c) + seq
	if _, err := d.session.conn.Create(node, nil, zk.FlagEphemeral, d.acl); err != nil {
		t.Fatal(err)
	}
	st := &claimState{claim: c, queue: path, node: node, session: d.sessionID()}
	c.State = st
	return st
}

func plantQueue(t *testing.T, op operator, n string) string {
	t.Helper()
	path := queuePath(folder, n)
	for _, p := range []string{folder, path} {
		if _, err := op.Create(p, nil, 0, zk.WorldACL(zk.PermAll)); err != nil && err != zk.ErrNodeExists {
			t.Fatal(err)
		}
	}
	return path
}

// A server gives the greatest number that there is to every further node, and some below
// zero: nobody who has such a number may hold the lock, or two would. They begin a new
// queue when those ahead have had their turns.
func TestNumbersThatAreUsedUp(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op, d := console(t, z.Addr()), raw(t, []string{z.Addr()})
	n := name(t)
	path := plantQueue(t, op, n)
	head := path + "/" + someID + "-1-all-all-0-0-2147483646"
	op.plant(head)
	ctx := within(t, time.Minute)
	for _, wait := range []bool{true, false} {
		for _, seq := range []string{"2147483647", "-2147483648", "-2147483647", "-0000000001"} {
			c := claim(n)
			c.Wait = wait
			if _, err := d.queue(ctx, plantAs(t, d, c, path, seq)); !errors.Is(err, zk.ErrNotEmpty) {
				t.Errorf("%s: %v", seq, err)
			}
			op.length(n, 1)
		}
	}
	first, second := plantAs(t, d, claim(n), path, "2147483647"), plantAs(t, d, claim(n), path, "2147483647")
	op.delete(head)
	if _, err := d.queue(ctx, first); !errors.Is(err, zk.ErrNotEmpty) {
		t.Errorf("the first: %v", err)
	}
	if _, err := d.queue(ctx, second); !errors.Is(err, errAgain) {
		t.Errorf("the second, who leaves the queue empty: %v", err)
	}
	if there, _, err := op.Exists(path); there || err != nil {
		t.Errorf("the queue is left: %v", err)
	}
	for _, st := range []*claimState{first, second} {
		g, err := d.try(ctx, st)
		for errors.Is(err, errAgain) {
			g, err = d.try(ctx, st)
		}
		if seq := parseEntry(st.node[len(path)+1:]).seq; err != nil || g.Token == 0 || seq > 100 {
			t.Errorf("%s: %v", st.node, err)
		}
		release(t, d, st.claim)
	}
}

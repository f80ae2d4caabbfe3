package faults

import (
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/seed80cd6120/locker/internal/servers"
)

// TestDeleteOfWhatHasGone: a session may expire between the operator's look and the deletion. Its node has then gone, which is what
// the operator wants.
func TestDeleteOfWhatHasGone(t *testing.T) {
	servers.Need(t)
	t.Parallel()
	defer waiting.enter()()
	s := StartOn(t, ZooKeeper1)
	c, err := ZooKeeperConn(t.Context(), s.Addrs)
	must(t, err)
	defer c.Close()
	for _, node := range []string{"/locker", "/locker/x", "/locker/x/here"} {
		_, err := c.Create(node, nil, 0, zk.WorldACL(zk.PermAll))
		must(t, err)
	}
	for _, nodes := range [][]string{nil, {"gone"}, {"gone", "here"}} {
		if err := deleteFirst(c, "/locker/x", nodes); err != nil {
			t.Errorf("delete the first of %q: %v", nodes, err)
		}
	}
	must(t, s.Destroy(t.Context(), "x"))
	if _, _, err := c.Get("/locker/x/here"); err != zk.ErrNoNode {
		t.Errorf("the node of the holder after Destroy: %v, want none", err)
	}
	must(t, s.Destroy(t.Context(), "x"))
}

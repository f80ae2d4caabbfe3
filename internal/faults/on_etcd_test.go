package faults

import (
	"testing"

	"github.com/seed80cd6120/locker/internal/servers"
)

// TestRevokeOfWhatHasExpired: a lease may expire between the operator's look and the revocation.
func TestRevokeOfWhatHasExpired(t *testing.T) {
	servers.Need(t)
	t.Parallel()
	defer waiting.enter()()
	c, err := EtcdClient(StartOn(t, Etcd1).Access)
	must(t, err)
	defer c.Close()
	granted, err := c.Grant(t.Context(), 60)
	must(t, err)
	for range 2 {
		if err := revoke(t.Context(), c, granted.ID); err != nil {
			t.Errorf("revoke: %v", err)
		}
	}
	if left, err := c.Leases(t.Context()); err != nil || len(left.Leases) != 0 {
		t.Errorf("leases that are left: %v, %v", left, err)
	}
}

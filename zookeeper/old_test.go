package zookeeper

import (
	"context"
	"testing"

	"github.com/seed80cd6120/locker/internal/servers"
)

// Before 3.5 a server knows neither containers nor a way to take back a watch; in
// 3.5.0 to 3.5.2 the first was missing.
func TestOldServers(t *testing.T) {
	beside(t)
	z := servers.SharedZooKeeper(t)
	op := console(t, z.Addr())
	for what, refuse := range map[string][]int32{
		"3.4":   {opRemoveWatches, opCreateContainer},
		"3.5.2": {opCreateContainer},
	} {
		t.Run(what, func(t *testing.T) {
			m := between(t, z.Addr(), refuse...)
			n := name(t)
			a, b, c := queues(t, op, m.addr(), n), queues(t, op, m.addr(), n), queues(t, op, m.addr(), n)
			g := a.holds()
			if _, stat, err := op.Get(a.node); err != nil || stat.Czxid != g.Token {
				t.Errorf("token %d, %v, %v", g.Token, stat, err)
			}
			a.releases()
			if next := b.holds(); next.Token <= g.Token {
				t.Errorf("tokens %d, %d", g.Token, next.Token)
			}
			c.waits()
			b.releases()
			c.holds()
			c.releases()
			// No server removes a plain node that is empty.
			if there, _, err := op.Exists(queuePath(folder, n)); there || err != nil {
				t.Errorf("the queue is left: %v", err)
			}
			try, _ := claim(t, name(t))
			try.Wait = false
			take(t, a.backend, try)
			if err := a.Release(context.Background(), try); err != nil {
				t.Error(err)
			}
			if m.refused == 0 {
				t.Error("the server was not old")
			}
		})
	}
}

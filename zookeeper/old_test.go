package zookeeper

import (
	"context"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/internal/servers"
)

// Before 3.5 a server knows neither containers nor a way to take back a watch; in
// 3.5.0 to 3.5.2 the first was missing.
func TestOldServers(t *testing.T) {
	t.Parallel()
	z := servers.SharedZooKeeper(t)
	op := console(t, z.Addr())
	for what, refuse := range map[string][]int32{
		"3.4":   {opRemoveWatches, opCreateContainer},
		"3.5.2": {opCreateContainer},
	} {
		t.Run(what, func(t *testing.T) {
			m := between(t, z.Addr(), refuse...)
			a, b, c := raw(t, []string{m.addr()}), raw(t, []string{m.addr()}), raw(t, []string{m.addr()})
			n := name(t)
			first, _ := claim(t, n)
			g := take(t, a, first)
			if _, stat, err := op.Get(op.nodeOf(first)); err != nil || stat.Czxid != g.Token {
				t.Errorf("token %d, %v, %v", g.Token, stat, err)
			}
			second, _ := claim(t, n)
			turn := begin(within(t, time.Minute), b, second)
			op.length(n, 2)
			third, _ := claim(t, n)
			last := begin(within(t, time.Minute), c, third)
			op.length(n, 3)
			if err := a.Release(within(t, time.Minute), first); err != nil {
				t.Fatal(err)
			}
			if next := await(t, turn, "grant").ok(t); next.Token <= g.Token {
				t.Errorf("tokens %d, %d", g.Token, next.Token)
			}
			select {
			case o := <-last:
				t.Fatalf("two hold: %+v", o)
			default:
			}
			if err := b.Release(within(t, time.Minute), second); err != nil {
				t.Fatal(err)
			}
			await(t, last, "grant").ok(t)
			if err := c.Release(within(t, time.Minute), third); err != nil {
				t.Fatal(err)
			}
			// No server removes a plain node that is empty.
			if there, _, err := op.Exists(queuePath(folder, n)); there || err != nil {
				t.Errorf("the queue is left: %v", err)
			}
			try, _ := claim(t, name(t))
			try.Wait = false
			take(t, a, try)
			if err := a.Release(context.Background(), try); err != nil {
				t.Error(err)
			}
			if m.refused == 0 {
				t.Error("the server was not old")
			}
		})
	}
}

package zookeeper

import (
	"fmt"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/servers"
)

// Whatever a server says that may pass, a waiting acquire goes on: with codes that the library has no name
// for, a session that is over for one request only, or one that has moved.
func TestErrorsThatMayPass(t *testing.T) {
	beside(t)
	z := servers.SharedZooKeeper(t)
	for _, code := range []int32{-1, -4, -7, -12, -100, -112, -118, -127, -999} {
		for what, op := range map[string]int32{"create": opMulti, "list": opGetChildren, "watch": opGetData} {
			t.Run(fmt.Sprint(what, code), func(t *testing.T) {
				n := name(t)
				holder := raw(t, []string{z.Addr()})
				h := claim(n)
				take(t, holder, h)
				m := newProtocolProxy(t, z.Addr())
				d := raw(t, []string{m.addr()})
				if _, err := d.session.conn.Sync("/"); err != nil { // greeted before
					t.Fatal(err)
				}
				m.mu.Lock()
				m.refuse, m.code, m.times = []int32{op}, code, 3
				m.mu.Unlock()
				c := claim(n)
				turn := begin(within(t, time.Minute), d, c)
				console(t, z.Addr()).nodeOf(c)
				eventually.Is(t, "three refusals", func() bool {
					m.mu.Lock()
					defer m.mu.Unlock()
					return m.refused == 3
				})
				release(t, holder, h)
				turn.Granted(t, patience)
				release(t, d, c)
			})
		}
	}
}

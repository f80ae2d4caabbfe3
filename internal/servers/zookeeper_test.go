package servers

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/servers/zkdial"
)

// connectZK returns a session of the client library, the only way to send a request
// that is no four-letter word. It pings every twenty seconds.
func connectZK(t *testing.T, addrs ...string) *zk.Conn {
	t.Helper()
	conn, err := zkdial.Dial(locktest.Within(t, 2*time.Minute), addrs, time.Minute)
	must(t, err)
	t.Cleanup(conn.Close)
	return conn
}

func TestZooKeeperLife(t *testing.T) {
	t.Parallel()
	z := NewZooKeeper(t, ZooKeeperOptions{})
	conn := connectZK(t, z.Addr())
	_, err := conn.Create("/kept", nil, 0, zk.WorldACL(zk.PermAll))
	must(t, err)
	conn.Close()
	lives(t, z.Server, func() (bool, error) {
		// Another client: one that comes back while the server starts may wait for ten times its timeout for the answer to that.
		conn := connectZK(t, z.Addr())
		defer conn.Close()
		ok, _, err := conn.Exists("/kept")
		return ok, err
	})
}

func TestZooKeeperRequests(t *testing.T) {
	z := SharedZooKeeper(t)
	conn := connectZK(t, z.Addr())
	counts(t, z.Server, 7, func() {
		for range 7 {
			_, _, err := conn.Get("/")
			must(t, err)
		}
	})
}

func TestZooKeeperEnsemble(t *testing.T) {
	t.Parallel()
	e := NewZooKeeperEnsemble(t, 3, ZooKeeperOptions{})
	ctx := locktest.Within(t, 5*time.Minute)
	leader, err := e.Leader(ctx)
	must(t, err)
	conn := connectZK(t, e.Addrs()...)
	if _, err := conn.Create("/kept", nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	must(t, leader.Kill())
	next, err := e.Leader(ctx)
	must(t, err)
	if next == leader {
		t.Error("the killed member leads")
	}
	// It comes back with nothing and is told everything.
	must(t, leader.RestartEmpty(ctx))
	back := connectZK(t, leader.Addr())
	if ok, _, err := back.Exists("/kept"); err != nil || !ok {
		t.Errorf("after RestartEmpty of a member: %v, %v", ok, err)
	}
	// Without a quorum nobody serves, but a member can be started.
	must(t, Each(e.Members, (*ZooKeeper).Kill))
	must(t, e.Members[0].RestartNoWait(ctx))
	if _, err := e.Members[0].Status(ctx); err == nil {
		t.Error("one of three serves")
	}
	must(t, e.Members[1].Restart(ctx))
}

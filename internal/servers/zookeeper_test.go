package servers

import (
	"io"
	"log"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/seed80cd6120/locker/internal/locktest"
)

// connectZK returns a session of the client library, the only way to send a request
// that is no four-letter word. It pings every twenty seconds.
func connectZK(t *testing.T, addrs ...string) *zk.Conn {
	t.Helper()
	conn, events, err := zk.Connect(addrs, time.Minute, zk.WithLogInfo(false), zk.WithLogger(log.New(io.Discard, "", 0)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	ctx := locktest.Within(t, 2*time.Minute)
	for {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				return conn
			}
		case <-ctx.Done():
			t.Fatal("no session")
		}
	}
}

func TestZooKeeperLife(t *testing.T) {
	t.Parallel()
	z := NewZooKeeper(t, ZooKeeperOptions{})
	conn := connectZK(t, z.Addr())
	acl := zk.WorldACL(zk.PermAll)
	if _, err := conn.Create("/kept", nil, 0, acl); err != nil {
		t.Fatal(err)
	}
	ctx := locktest.Within(t, 5*time.Minute)
	if err := z.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := z.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	// Another client: one that comes back while the server starts may wait for ten times its timeout for the answer to that.
	conn.Close()
	conn = connectZK(t, z.Addr())
	if ok, _, err := conn.Exists("/kept"); err != nil || !ok {
		t.Errorf("after Restart: %v, %v", ok, err)
	}
	conn.Close()
	if err := z.RestartEmpty(ctx); err != nil {
		t.Fatal(err)
	}
	conn = connectZK(t, z.Addr())
	if ok, _, err := conn.Exists("/kept"); err != nil || ok {
		t.Errorf("after RestartEmpty: %v, %v", ok, err)
	}
	if err := z.Pause(); err != nil {
		t.Fatal(err)
	}
	if err := z.Stop(); err != nil {
		t.Fatal(err)
	}
}

func TestZooKeeperRequests(t *testing.T) {
	z := SharedZooKeeper(t)
	ctx := locktest.Within(t, 2*time.Minute)
	conn := connectZK(t, z.Addr())
	before, err := z.Requests(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for range 7 {
		if _, _, err := conn.Get("/"); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		after, err := z.Requests(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if n := after - before; n != 7 {
			t.Errorf("%d requests were counted, 7 were sent", n)
		}
	}
}

func TestZooKeeperContainers(t *testing.T) {
	t.Parallel()
	z := NewZooKeeper(t, ZooKeeperOptions{
		Tick:       200 * time.Millisecond,
		Properties: map[string]string{"znode.container.checkIntervalMs": "100"},
		Config:     map[string]string{"maxSessionTimeout": "30000"},
	})
	conn := connectZK(t, z.Addr())
	acl := zk.WorldACL(zk.PermAll)
	if _, err := conn.CreateContainer("/c", nil, zk.FlagContainer, acl); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Create("/c/child", nil, 0, acl); err != nil {
		t.Fatal(err)
	}
	if err := conn.Delete("/c/child", -1); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(pollEvery) {
		ok, _, err := conn.Exists("/c")
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the empty container was not removed")
		}
	}
}

func TestZooKeeperEnsemble(t *testing.T) {
	t.Parallel()
	e := NewZooKeeperEnsemble(t, 3, ZooKeeperOptions{})
	ctx := locktest.Within(t, 5*time.Minute)
	leader, err := e.Leader(ctx)
	if err != nil {
		t.Fatal(err)
	}
	conn := connectZK(t, e.Addrs()...)
	if _, err := conn.Create("/kept", nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	if err := leader.Kill(); err != nil {
		t.Fatal(err)
	}
	next, err := e.Leader(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if next == leader {
		t.Error("the killed member leads")
	}
	// It comes back with nothing and is told everything.
	if err := leader.RestartEmpty(ctx); err != nil {
		t.Fatal(err)
	}
	back := connectZK(t, leader.Addr())
	if ok, _, err := back.Exists("/kept"); err != nil || !ok {
		t.Errorf("after RestartEmpty of a member: %v, %v", ok, err)
	}
	// Without a quorum nobody serves, but a member can be started.
	for _, z := range e.Members {
		if err := z.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Members[0].RestartNoWait(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Members[0].Status(ctx); err == nil {
		t.Error("one of three serves")
	}
	if err := e.Members[1].Restart(ctx); err != nil {
		t.Fatal(err)
	}
}

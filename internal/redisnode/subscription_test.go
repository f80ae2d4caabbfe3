package redisnode

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/servers"
)

// unsubscribed is a connection on which a request to subscribe fails, if that is the first.
type unsubscribed struct {
	net.Conn
	failed *atomic.Bool
}

func (c unsubscribed) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("\nsubscribe\r")) && !c.failed.Swap(true) {
		return 0, errors.New("broken pipe")
	}
	return c.Conn.Write(b)
}

// Where the request to subscribe is not sent nobody waits for its answer.
func TestSubscribeFails(t *testing.T) {
	addr := servers.SharedRedis(t).Addr()
	for range 20 { // the reader may be first, which would find it
		var failed atomic.Bool
		client := goredis.NewClient(&goredis.Options{Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
			return unsubscribed{conn, &failed}, err
		}})
		t.Cleanup(func() { _ = client.Close() })
		n := open(t, client)
		c := n.exclusive(t.Name())
		n.Join(c, func(Answer) {})
		ctx := within(t, 20*time.Second)
		if err := n.Ready(ctx, c); err == nil || ctx.Err() != nil || !failed.Load() {
			t.Fatalf("failed: %v; %v", failed.Load(), err)
		}
		must(t, n.Ready(ctx, c))
	}
}

// What is kept of the servers of a Cluster does not outlive them for ever.
func TestServersThatHaveLeft(t *testing.T) {
	cluster := servers.NewRedisCluster(t, 3, servers.RedisOptions{})
	client := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: cluster.Addrs()})
	t.Cleanup(func() { _ = client.Close() })
	n := open(t, client)
	c := n.exclusive(t.Name())
	n.Join(c, func(Answer) {})
	eventually.Is(t, "a subscription", func() bool { return n.Ready(within(t, 20*time.Second), c) == nil })
	left := connect(t, "127.0.0.1:1")
	n.clients.Store(left, &inPlaceClient{left, func() bool { return false }})
	n.mu.Lock()
	for _, s := range n.subs {
		_ = s.pubsub.Close()
	}
	n.mu.Unlock()
	eventually.Is(t, "forgotten", func() bool {
		_, there := n.clients.Load(left)
		return !there
	})
}

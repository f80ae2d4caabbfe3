package redisnode

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/servers"
)

func open(t testing.TB, addr string) *Node {
	t.Helper()
	client := goredis.NewClient(&goredis.Options{Addr: addr})
	t.Cleanup(func() { _ = client.Close() })
	n, err := Open(client, Options{Prefix: "locker", Clock: locker.SystemClock(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close(context.Background()) })
	return n
}

func (n *Node) make(name string, weight, limit int32) *Claim {
	var id [16]byte
	_, _ = rand.Read(id[:])
	return n.Claim(&driver.Claim{Name: name, ID: hex.EncodeToString(id[:]), Owner: "me and\nyou", Weight: weight, Limit: limit, TTL: 10 * time.Second})
}

func TestSmoke(t *testing.T) {
	server := servers.NewRedis(t, servers.RedisOptions{})
	n := open(t, server.Addr())
	ctx := context.Background()
	a := n.make("x", driver.All, driver.All)
	t.Log(n.Acquire(ctx, a, false, 0))
	t.Log(n.Acquire(ctx, a, false, 0))
	b := n.make("x", 1, driver.All)
	t.Log(n.Acquire(ctx, b, false, 0))
	events := make(chan Event, 10)
	n.Join(b, func(e Event) { events <- e })
	t.Log(n.Ready(ctx, b))
	t.Log(n.Acquire(ctx, b, true, 0))
	t.Log(n.Look(ctx, "x"))
	n.Renew(ctx, []*Claim{a, b}, func(c *Claim, r Renewal, err error) { t.Log(r, err) })
	t.Log(n.Lighten(ctx, a, 1))
	t.Log(<-events)
	t.Log(n.Look(ctx, "x"))
	n.Renew(ctx, []*Claim{a, b}, func(c *Claim, r Renewal, err error) { t.Log(r, err) })
	for name, err := range n.Names(ctx, "") {
		t.Log(name, err)
	}
	t.Log(n.Settle(ctx, b, time.Now().UnixMicro()+1e6, 0))
	t.Log(n.Release(ctx, a, 0, 0))
	t.Log(n.Evict(ctx, "x", b.ID))
	t.Log(n.Release(ctx, b, 0, 0))
	t.Log(n.Look(ctx, "x"))
	t.Log(n.brisk.Load(), n.inPlace(ctx, "x"))
}

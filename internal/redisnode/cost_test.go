package redisnode

import (
	"context"
	"strings"
	"testing"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/servers"
)

func TestCost(t *testing.T) {
	server := servers.NewRedis(t, servers.RedisOptions{})
	n := open(t, server.Addr())
	ctx := context.Background()
	stats := func(what string) {
		v, _ := server.Do(ctx, "INFO", "commandstats")
		for line := range strings.Lines(v.(string)) {
			if strings.HasPrefix(line, "cmdstat_eval") {
				t.Log(what, strings.TrimSpace(line))
			}
		}
		_, _ = server.Do(ctx, "CONFIG", "RESETSTAT")
	}
	a := n.make("x", driver.All, driver.All)
	n.Acquire(ctx, a, false, 0)
	n.Release(ctx, a, 0, 0)
	stats("warm")
	const times = 5000
	for range times {
		n.Acquire(ctx, n.make("x", driver.All, driver.All), false, 0)
		n.client.Del(ctx, a.lock)
	}
	stats("take")
	for range times {
		n.client.Set(ctx, a.lock, "1 "+a.ID+" 2147483647 2147483647 10000 1795452025932370 1795452025932370 me", 0)
		n.Release(ctx, a, 0, 0)
	}
	stats("release")
	n.Acquire(ctx, a, false, 0)
	w := make([]*Claim, times)
	for i := range w {
		w[i] = n.make("x", driver.All, driver.All)
		n.Join(w[i], func(Event) {})
	}
	n.Ready(ctx, w[0])
	stats("")
	for i := range w {
		n.Acquire(ctx, w[i], true, 0)
	}
	stats("join")
	n.Release(ctx, a, 0, 0)
	for i := range w {
		n.Release(ctx, w[i], 0, 0)
	}
	stats("hand over")
	for range times {
		n.Acquire(ctx, n.make("y", 1, driver.All), false, 0)
		n.client.Del(ctx, n.make("y", 1, 1).lock)
	}
	stats("take shared")
}
